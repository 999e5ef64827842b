// The provider has the last word: each payment that anybody was told of was charged once, and nothing else was.

/** `paid` are the answers of all payments, by key, of each contestant. */
export function judge(charges, paid) {
  const times = new Map();
  for (const resource of charges) times.set(resource, (times.get(resource) ?? 0) + 1);
  const wrong = [];
  let told = 0;
  for (const [name, answers] of Object.entries(paid))
    for (const bytes of answers.values()) {
      const { id } = JSON.parse(bytes);
      told += 1;
      if (times.get(id) !== 1) wrong.push(`${name}: ${id} was charged ${times.get(id) ?? 0} times`);
    }
  if (charges.length !== told) wrong.push(`${charges.length} charges for ${told} payments`);
  return wrong;
}
