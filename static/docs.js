// Fills the page of the API: Swagger UI with the document of this site.

const page = document.getElementById('api');

/**
 * Gives each operation a key of its own: one key stands for one request, and who tries two operations with the same one
 * is refused.
 */
function withFreshKeys(spec) {
  const shared = spec.components.parameters.IdempotencyKey;
  const isShared = ({ $ref }) => $ref === '#/components/parameters/IdempotencyKey';
  for (const operation of Object.values(spec.paths).flatMap(Object.values)) {
    operation.parameters = operation.parameters?.map((parameter) =>
      isShared(parameter) ? { ...shared, example: crypto.randomUUID() } : parameter,
    );
  }
  return spec;
}

/** What Swagger UI leaves without a name, and what scrolls but cannot be reached with the keyboard. */
function complete() {
  const label = (selector, name) => {
    for (const element of page.querySelectorAll(selector)) element.ariaLabel ??= name;
  };
  label('textarea.body-param__text', 'Request body');
  label('select.examples-select-element', 'Example');
  label('select', 'Choice');
  for (const code of page.querySelectorAll('pre.microlight')) code.tabIndex = 0;
}

/** Swagger UI's parts without its own frame: that has a title and a `main`, and the page has both already. */
const layout = ({ React }) => {
  const Description = ({ getComponent, specSelectors }) =>
    React.createElement(getComponent('Markdown', true), { source: specSelectors.info().get('description') });
  const parts = ['SvgAssets', 'errors', 'Description', 'AuthorizeBtnContainer', 'operations', 'Models'];
  const Page = ({ getComponent }) => {
    const shown = parts.map((name) => React.createElement(getComponent(name, true), { key: name }));
    return React.createElement('div', { className: 'swagger-ui' }, shown);
  };
  return { components: { Description, Page } };
};

new MutationObserver(complete).observe(page, { childList: true, subtree: true });

const answer = await fetch('/openapi.json');
const ui = window.SwaggerUIBundle({
  spec: withFreshKeys(await answer.json()),
  domNode: page,
  plugins: [layout],
  layout: 'Page',
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  tryItOutEnabled: true,
  onComplete: () => page.dataset.token && ui.preauthorizeApiKey('account', page.dataset.token),
});
