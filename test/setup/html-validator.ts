/** An independent validator of HTML. */
import { HtmlValidate } from 'html-validate';

const validator = new HtmlValidate({
  extends: ['html-validate:recommended'],
  rules: {
    // Source style that no browser sees: the formatter of the templates writes `<!doctype` in lower case and closes
    // void elements, and an omitted part of a template leaves an empty line.
    'doctype-style': 'off',
    'void-style': 'off',
    'no-trailing-whitespace': 'off',
    // Checkboxes of one group have one name, as radio buttons do.
    'form-dup-name': ['error', { shared: ['radio', 'button', 'reset', 'submit', 'checkbox'] }],
  },
});

/** Returns what is wrong with the page, with its lines. */
export async function faultsIn(page: string): Promise<string[]> {
  const { results } = await validator.validateString(page);
  return results.flatMap(({ messages }) =>
    messages.map(({ ruleId, message, line }) => `${line} ${ruleId}: ${message}`),
  );
}
