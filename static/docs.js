// The examples of the API's page and of the documents name this site.

const EXAMPLE = 'https://pay.example.com';
const DEMO = 'http://localhost:8787';

for (const example of document.querySelectorAll('[data-copy]')) {
  const code = example.firstElementChild;
  code.textContent = code.textContent
    .replaceAll(`curl -i ${EXAMPLE}`, `curl -i ${location.origin}`)
    .replaceAll(`curl -s ${EXAMPLE}`, `curl -s ${location.origin}`)
    .replaceAll(DEMO, location.origin);
}
