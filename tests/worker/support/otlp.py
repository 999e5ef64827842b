"""Reads requests to a collector with OpenTelemetry's own messages: JSON on the standard input, a body a line; what was read goes back the
same way, through the bytes of the other encoding. A field that the messages do not have, or a value of another type, is an error."""

import base64
import json
import re
import sys

from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

# OTLP writes ids in hexadecimal digits, where JSON of protobuf has base64.
IDS = {"traceId": 16, "spanId": 8, "parentSpanId": 8}


def ids(value, change):
    if isinstance(value, list):
        return [ids(one, change) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: change(name, one) if name in IDS else ids(one, change) for name, one in value.items()}


def from_hex(name, text):
    if not re.fullmatch(f"[0-9a-f]{{{IDS[name] * 2}}}", text) or set(text) == {"0"}:
        raise ValueError(f"{name} {text}")
    return base64.b64encode(bytes.fromhex(text)).decode()


def to_hex(_, text):
    return base64.b64decode(text).hex()


for line in sys.stdin:
    message = ParseDict(ids(json.loads(line), from_hex), ExportTraceServiceRequest())
    message = ExportTraceServiceRequest.FromString(message.SerializeToString())
    print(json.dumps(ids(MessageToDict(message), to_hex)), flush=True)
