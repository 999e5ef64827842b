// Values of JavaScript as the text of workerd's configuration (workerd.capnp).

/** Text that stands as it is: a `embed`, a name of an enum. */
export class Raw {
  constructor(text) {
    this.text = text;
  }
}

export const embed = (path) => new Raw(`embed ${JSON.stringify(path)}`);
/** The member of a union that has no value. */
export const nothing = new Raw('void');

export const config = (value) =>
  `using Workerd = import "/workerd/workerd.capnp";\nconst config :Workerd.Config = ${text(value)};\n`;

function text(value) {
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(text).join(', ')}]`;
  if (typeof value === 'object') {
    const fields = Object.entries(value).filter(([, field]) => field !== undefined);
    return `(${fields.map(([name, field]) => `${name} = ${text(field)}`).join(', ')})`;
  }
  return typeof value === 'string' ? JSON.stringify(value) : `${value}`;
}
