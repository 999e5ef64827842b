// The examples of the API's page name this site.

const EXAMPLE = 'https://pay.example.com';

for (const example of document.querySelectorAll('[data-copy]')) {
  const code = example.firstElementChild;
  code.textContent = code.textContent.replaceAll(`curl -i ${EXAMPLE}`, `curl -i ${location.origin}`);
}
