"""Python's requests, trying again with urllib3's Retry: a line of JSON in, the answer as a line of JSON out."""

import json
import sys

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

settings = json.loads(sys.argv[1])
retry = Retry(
    total=settings["retries"],
    allowed_methods=["POST"],
    status_forcelist=[429, 500, 502, 503, 504],
    backoff_factor=0,
)
session = requests.Session()
session.trust_env = False  # no proxy of the machine's between this client and the test's
session.mount("http://", HTTPAdapter(max_retries=retry))

for line in sys.stdin:
    asked = json.loads(line)
    try:
        answer = session.post(
            asked["url"], data=asked["body"], headers=asked["headers"], timeout=settings["timeout_s"]
        )
        told = {"status": answer.status_code, "text": answer.text}
    except requests.RequestException as error:
        told = {"error": str(error)}
    print(json.dumps(told), flush=True)
