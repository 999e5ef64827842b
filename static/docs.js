// Fills the page of the API: Swagger UI with the document of this site.

const page = document.getElementById('api');
const methods = ['get', 'post', 'delete'];

/**
 * Gives each operation a key of its own: one key stands for one request, and who tries two operations with the same one
 * is refused.
 */
function withFreshKeys(spec) {
  const shared = spec.components.parameters.IdempotencyKey;
  const isShared = ({ $ref }) => $ref === '#/components/parameters/IdempotencyKey';
  for (const path of Object.values(spec.paths)) {
    for (const method of methods) {
      const operation = path[method];
      if (!operation?.parameters) continue;
      operation.parameters = operation.parameters.map((parameter) =>
        isShared(parameter) ? { ...shared, example: crypto.randomUUID() } : parameter,
      );
    }
  }
  return spec;
}

/** Swagger UI takes its colours from a class. */
function followColorScheme() {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches);
  dark.addEventListener('change', follow);
  follow();
}

followColorScheme();
const answer = await fetch('/openapi.json');
const ui = window.SwaggerUIBundle({
  spec: withFreshKeys(await answer.json()),
  domNode: page,
  deepLinking: true,
  displayRequestDuration: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
  onComplete: () => page.dataset.token && ui.preauthorizeApiKey('account', page.dataset.token),
});
