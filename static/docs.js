// What the page of the API has beside its text: examples that name this site, and buttons that copy them.

const EXAMPLE = 'https://pay.example.com';

for (const example of document.querySelectorAll('[data-copy]')) {
  const code = example.firstElementChild;
  code.textContent = code.textContent.replaceAll(`curl -i ${EXAMPLE}`, `curl -i ${location.origin}`);
  if (!navigator.clipboard) continue;
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'button small quiet copy';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(code.textContent);
    button.textContent = 'Copied';
    setTimeout(() => (button.textContent = 'Copy'), 2000);
  });
  example.after(button);
}
