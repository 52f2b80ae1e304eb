/**
 * Offers passkeys on the pages of sign-in and of sign-in settings. Without it the pages are complete, except for passkeys. Served as
 * it is (`../shell.ts`), after the library of SimpleWebAuthn, which defines `SimpleWebAuthnBrowser`.
 */

/**
 * The functions of the library that are used here.
 * @typedef {{
 *   browserSupportsWebAuthn: () => boolean,
 *   browserSupportsWebAuthnAutofill: () => Promise<boolean>,
 *   startAuthentication: (options: { optionsJSON: unknown, useBrowserAutofill?: boolean }) => Promise<unknown>,
 *   startRegistration: (options: { optionsJSON: unknown }) => Promise<unknown>,
 * }} Library
 */
const library = /** @type {{ SimpleWebAuthnBrowser: Library }} */ (/** @type {unknown} */ (globalThis))
  .SimpleWebAuthnBrowser;

/**
 * Shows why a passkey was not used, in place of an earlier message.
 * @param {HTMLElement} near
 * @param {unknown} error
 */
function report(near, error) {
  const isRefused = error instanceof Error && error.name === 'NotAllowedError';
  const isKnown = error instanceof Error && error.name === 'InvalidStateError';
  const message = near.parentElement?.querySelector('[data-passkey-alert]') ?? document.createElement('p');
  message.className = 'alert';
  message.setAttribute('role', 'alert');
  message.setAttribute('data-passkey-alert', '');
  message.textContent = isKnown
    ? 'This device has a passkey for your account already.'
    : isRefused
      ? 'The passkey was not used: you cancelled, or the time ran out.'
      : 'The passkey could not be used in this browser.';
  near.before(message);
}

/**
 * Sends the form with the response of the authenticator, which replaces a code: empty fields do not stop it.
 * @param {HTMLFormElement} form
 * @param {string} field
 * @param {unknown} response
 */
function send(form, field, response) {
  const input = /** @type {HTMLInputElement} */ (form.elements.namedItem(field));
  input.value = JSON.stringify(response);
  form.submit();
}

/** @param {HTMLElement} offer */
async function offerSignIn(offer) {
  const form = offer.closest('form');
  const button = offer.querySelector('button');
  if (form === null || button === null) return;
  const optionsJSON = JSON.parse(offer.dataset['passkeyGet'] ?? '');
  offer.hidden = false;
  button.addEventListener('click', (event) => {
    event.preventDefault();
    library.startAuthentication({ optionsJSON }).then(
      (response) => send(form, 'verification_passkey', response),
      (error) => report(offer, error),
    );
  });
  if (!('passkeyAutofill' in offer.dataset) || !(await library.browserSupportsWebAuthnAutofill())) return;
  // Ends with an error when the button starts another request, or the person chooses no passkey: they know.
  library.startAuthentication({ optionsJSON, useBrowserAutofill: true }).then(
    (response) => send(form, 'verification_passkey', response),
    () => {},
  );
}

/** @param {HTMLFormElement} form */
function offerCreation(form) {
  const optionsJSON = JSON.parse(form.dataset['passkeyCreate'] ?? '');
  form.hidden = false;
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    library.startRegistration({ optionsJSON }).then(
      (response) => send(form, 'registration', response),
      (error) => report(form, error),
    );
  });
}

if (library.browserSupportsWebAuthn()) {
  for (const offer of document.querySelectorAll('[data-passkey-get]'))
    if (offer instanceof HTMLElement) void offerSignIn(offer);
  for (const form of document.querySelectorAll('[data-passkey-create]'))
    if (form instanceof HTMLFormElement) offerCreation(form);
  for (const hint of document.querySelectorAll('[data-passkey-missing]')) hint.remove();
}
