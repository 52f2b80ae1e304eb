/**
 * Adds to pages what needs a script: relative times, copy buttons, live lists, keyboard shortcuts, and a warning before input is lost. Pages are complete without it. Served as it
 * is (`../shell.ts`), as a module, so it runs after the page was parsed.
 */

const DAY_MS = 86_400_000;
/** Older and later dates stay as they are: "5 months ago" says less than the date. */
const RELATIVE_MS = 7 * DAY_MS;
const WRITTEN = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:Z|([+-]\d\d):?(\d\d))$/;

/**
 * Shows beside a date how long ago it was, and its seconds in the title. Dates of class `exact` are there to be compared with logs.
 * @param {HTMLTimeElement} time
 */
function addRelative(time) {
  const [, day, clock, hours = '+00', minutes = '00'] = WRITTEN.exec(time.dateTime) ?? [];
  if (day === undefined) return;
  const iso = `${day}T${clock}${hours}:${minutes}`;
  if (Math.abs(Date.parse(iso) - Date.now()) > RELATIVE_MS) return;
  const style = time.closest('tbody') === null ? 'long' : 'narrow';
  const relative = element('relative-time', { datetime: iso, 'no-title': '', 'format-style': style });
  time.title = `${day} ${clock} UTC${hours}:${minutes}`;
  (time.querySelector('span') ?? time).append(element('span', { class: 'ago' }, ' (', relative, ')'));
}

/**
 * @param {string} tag
 * @param {Record<string, string>} attributes
 * @param {(Node | string)[]} children
 */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The message that screen readers speak. */
const spoken = element('p', { role: 'status', class: 'unseen' });

const CONFIRMED_MS = 2000;

/**
 * Copies the text, unchanged. `navigator.clipboard` is missing on plain http, except on loopback.
 * @param {HTMLElement} source
 */
async function copy(source) {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(source.textContent ?? '');
  getSelection()?.selectAllChildren(source);
  // The only way to copy without a secure context.
  if (!document.execCommand('copy')) throw new Error('The browser refused to copy');
  getSelection()?.removeAllRanges();
}

/** @param {HTMLElement} source */
function addCopyButton(source) {
  const button = element('button', { type: 'button', class: 'copy quiet' }, 'Copy');
  const box = element('div', { class: 'copies' });
  source.replaceWith(box);
  box.append(source, button);
  /** @param {string} message */
  const confirm = (message) => {
    button.textContent = message;
    spoken.textContent = message;
    setTimeout(() => {
      button.textContent = 'Copy';
      spoken.textContent = '';
    }, CONFIRMED_MS);
  };
  button.addEventListener('click', () => {
    copy(source).then(
      () => confirm('Copied'),
      () => confirm('Not copied'),
    );
  });
}

/** The element that had the focus when the key `/` moved it to the search. */
let origin = document.activeElement;

/** Moves the focus to the search of the store, or else to that of the page, whose folded form is opened. */
function openSearch() {
  const search = document.querySelector('form[role=search]');
  const field = search?.querySelector('input:not([type=hidden]), select');
  if (!(field instanceof HTMLElement)) return;
  const folded = field.closest('details');
  if (folded !== null) folded.open = true;
  origin = document.activeElement;
  field.focus();
}

/** Leaves the search, or closes the form that the address names; the focus returns to where it was, or to the button that opens the form. */
function leave() {
  const active = document.activeElement;
  const panel = document.querySelector('.panel:target');
  if (active instanceof HTMLElement && active.closest('form[role=search]') !== null) {
    active.blur();
    if (origin instanceof HTMLElement) origin.focus();
  } else if (panel !== null) {
    const opener = document.querySelector(`.button[href="#${panel.id}"]`);
    location.hash = 'main';
    if (opener instanceof HTMLElement) opener.focus();
  }
}

/**
 * Moves the focus to the first link or button of the next entry of the page's lists and tables, or of the previous one.
 * @param {1 | -1} step
 */
function move(step) {
  const entries = [...document.querySelectorAll('.log > li, tbody > tr')].flatMap((entry) => {
    const first = [...entry.querySelectorAll('a[href], summary, button')].find((one) => one.checkVisibility());
    return first instanceof HTMLElement ? [{ entry, first }] : [];
  });
  const current = entries.findIndex(({ entry }) => entry.contains(document.activeElement));
  const next = entries[current === -1 ? (step === 1 ? 0 : entries.length - 1) : current + step];
  next?.first.focus();
}

/** `no` in the storage of this browser turns the shortcuts off (WCAG 2.1.4: shortcuts of one character need such a setting). */
const STORED = 'shortcuts';
const areOn = () => localStorage.getItem(STORED) !== 'no';

const SHORTCUTS = [
  ['/', 'Search'],
  ['j', 'Next entry'],
  ['k', 'Previous entry'],
  ['?', 'Show these shortcuts'],
  ['Esc', 'Leave the search, or close a form'],
];

function createDialog() {
  const box = document.createElement('input');
  box.type = 'checkbox';
  box.checked = areOn();
  box.addEventListener('change', () => localStorage.setItem(STORED, box.checked ? 'yes' : 'no'));
  const close = element('button', { type: 'button', autofocus: '' }, 'Close');
  const dialog = /** @type {HTMLDialogElement} */ (
    element(
      'dialog',
      { 'aria-labelledby': 'shortcuts' },
      element('h2', { id: 'shortcuts' }, 'Keyboard shortcuts'),
      element(
        'dl',
        {},
        ...SHORTCUTS.flatMap(([key = '', meaning = '']) => [
          element('dt', {}, element('kbd', {}, key)),
          element('dd', {}, meaning),
        ]),
      ),
      element('label', { class: 'choice' }, box, 'Use keyboard shortcuts'),
      element('div', { class: 'buttons' }, close),
    )
  );
  close.addEventListener('click', () => dialog.close());
  return dialog;
}

/** @param {EventTarget | null} target */
const isTyping = (target) =>
  target instanceof HTMLElement && (target.isContentEditable || target.closest('input, select, textarea') !== null);

/** @param {HTMLDialogElement} dialog */
function listen(dialog) {
  /** @type {Record<string, () => void>} */
  const actions = {
    '/': openSearch,
    j: () => move(1),
    k: () => move(-1),
    '?': () => dialog.showModal(),
  };
  document.addEventListener('keydown', (event) => {
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : undefined;
    const isCombined = event.ctrlKey || event.metaKey || event.altKey;
    if (event.key === 'Escape' && !dialog.open) leave();
    if (action === undefined || isCombined || dialog.open || isTyping(event.target) || !areOn()) return;
    // Otherwise the key would also be typed into the field that now has the focus.
    event.preventDefault();
    action();
  });
}

/**
 * The parts of a page that change with what happens in the store, in their order. Their attribute is the address of the stream, or the
 * seconds after which the page of something that waits is read again.
 * @param {ParentNode} root
 */
const livePartsOf = (root) => [...root.querySelectorAll('[data-live]')];

/** Reads the page again and replaces the live parts that differ; the focus stays at the link that has it. Shows the page as a whole when nothing of it is live any more. */
async function renew() {
  const here = new URL(location.href);
  // The message of a completed action is not repeated.
  here.searchParams.delete('done');
  const response = await fetch(here, { headers: { Accept: 'text/html' } });
  // A redirect leads to sign-in.
  if (!response.ok || response.redirected) return;
  const read = new DOMParser().parseFromString(await response.text(), 'text/html');
  const renewed = livePartsOf(read);
  if (renewed.length === 0) location.replace(here);
  for (const [index, part] of livePartsOf(document).entries()) {
    const next = renewed[index];
    if (next === undefined || next.textContent === seen.get(part)) continue;
    seen.set(part, next.textContent);
    const focused = part.contains(document.activeElement) ? document.activeElement?.getAttribute('href') : undefined;
    part.replaceChildren(...[...next.childNodes].map((node) => document.importNode(node, true)));
    enhance(part);
    const again = [...part.querySelectorAll('a[href]')].find((link) => link.getAttribute('href') === focused);
    if (again instanceof HTMLElement) again.focus();
  }
}

/** The text of each live part as it was read, before relative times were added. */
const seen = new Map(livePartsOf(document).map((part) => [part, part.textContent]));

const RENEWED_MS = 2000;
const CONNECTED_MS = 10_000;

/**
 * Keeps the live parts up to date, with a button that pauses it. A hidden page has no stream: browsers allow six connections to a
 * server, and each page with a stream would take one.
 * @param {Element} last the part before which the button is placed
 */
function keepLive(last) {
  /** @type {Pick<EventSource, 'close'> | undefined} */
  let source;
  const address = last.getAttribute('data-live') ?? '';
  const seconds = Number(address);
  let isPaused = false;
  let isRenewing = false;
  let isOutdated = false;
  const state = element('span', { role: 'status' });
  const button = element('button', { type: 'button', class: 'quiet' });
  /** Renews once at a time and at most every two seconds, and again if something has happened meanwhile. */
  const update = () => {
    isOutdated = true;
    if (isRenewing) return;
    isRenewing = true;
    isOutdated = false;
    void renew()
      .catch(() => {})
      .then(() => new Promise((resolve) => setTimeout(resolve, RENEWED_MS)))
      .then(() => {
        isRenewing = false;
        if (isOutdated && source !== undefined) update();
      });
  };
  const show = () => {
    state.textContent = isPaused ? 'Paused.' : source === undefined ? 'Not connected.' : 'Live: changes appear here.';
    button.textContent = isPaused ? 'Resume' : 'Pause';
  };
  const close = () => {
    source?.close();
    source = undefined;
  };
  const open = () => {
    if (source !== undefined) return;
    if (seconds > 0) {
      const timer = setInterval(update, seconds * 1000);
      source = { close: () => clearInterval(timer) };
      return;
    }
    const opened = new EventSource(address);
    source = opened;
    opened.addEventListener('message', update);
    // The browser connects again by itself, unless the server has refused.
    opened.addEventListener('error', () => {
      if (opened.readyState !== EventSource.CLOSED || source !== opened) return;
      close();
      show();
      setTimeout(openOrClose, CONNECTED_MS);
    });
  };
  const openOrClose = () => {
    if (isPaused || document.hidden) close();
    else open();
    show();
  };
  button.addEventListener('click', () => {
    isPaused = !isPaused;
    openOrClose();
  });
  document.addEventListener('visibilitychange', openOrClose);
  // An open stream would keep the page out of the cache of the back button.
  addEventListener('pagehide', close);
  addEventListener('pageshow', openOrClose);
  openOrClose();
  last.before(element('p', { class: 'live soft' }, state, button));
}

/** @param {HTMLFormElement} form */
const inputOf = (form) => JSON.stringify([...new FormData(form)]);

/**
 * Warns before input is lost that was not sent: of a form that differs from its beginning, or that the server shows again with its input.
 * `isSent` says whether a form leaves the page with its input. A page without input has no listener, with which some browsers do not cache
 * it for the back button.
 * @param {(form: HTMLFormElement) => boolean} isSent
 */
function keepInput(isSent) {
  const posted = [...document.forms].filter((form) => form.method === 'post');
  const begun = posted.map((form) => ({ form, input: form.hasAttribute('data-unsaved') ? undefined : inputOf(form) }));
  /** @param {BeforeUnloadEvent} event */
  const warn = (event) => {
    if (begun.some(({ form, input }) => !isSent(form) && form.isConnected && inputOf(form) !== input))
      event.preventDefault();
  };
  const guard = () => addEventListener('beforeunload', warn);
  if (begun.some(({ input }) => input === undefined)) guard();
  addEventListener('input', guard, { once: true });
}

/**
 * Shows only the events of the resource that a form has chosen: a webhook receives those of one.
 * @param {HTMLSelectElement} resource
 */
function showEventsOf(resource) {
  /** @param {boolean} isChange */
  const show = (isChange) => {
    for (const group of resource.form?.querySelectorAll('details[data-of]') ?? []) {
      if (!(group instanceof HTMLDetailsElement)) continue;
      const isChosen = group.dataset['of'] === resource.value;
      group.hidden = resource.value !== '' && !isChosen;
      if (isChosen) group.open = true;
      for (const box of group.querySelectorAll('input')) if (isChange && group.hidden) box.checked = false;
    }
  };
  resource.addEventListener('change', () => show(true));
  show(false);
}

const RESENT_MS = 5000;

/**
 * Sends a form once, also on a double click: the second request for a deletion would find nothing, and its page replace that of the first. After a
 * while the form can be sent again, because the first response may never come, or be a download. Returns whether a form is being sent.
 */
function sendOnce() {
  /** @type {Set<EventTarget>} */
  const sent = new Set();
  addEventListener('submit', (event) => {
    const form = event.target;
    if (!(form instanceof HTMLFormElement) || form.method !== 'post') return;
    if (sent.has(form)) event.preventDefault();
    sent.add(form);
    setTimeout(() => sent.delete(form), RESENT_MS);
  });
  // The back button may show the page as it was left.
  addEventListener('pageshow', () => sent.clear());
  return /** @param {HTMLFormElement} form */ (form) => sent.has(form);
}

/** @param {ParentNode} root */
function enhance(root) {
  for (const time of root.querySelectorAll('time:not(.exact)')) {
    if (time instanceof HTMLTimeElement) addRelative(time);
  }
  for (const source of root.querySelectorAll('pre.copyable, .reveal > code')) {
    if (source instanceof HTMLElement) addCopyButton(source);
  }
}

enhance(document);
keepInput(sendOnce());
for (const resource of document.querySelectorAll('select[name=event_resource]')) {
  if (resource instanceof HTMLSelectElement) showEventsOf(resource);
}
const live = livePartsOf(document).at(-1);
if (live !== undefined) keepLive(live);
const dialog = createDialog();
listen(dialog);
const show = element('button', { type: 'button' }, 'Keyboard shortcuts');
show.addEventListener('click', () => dialog.showModal());
document.querySelector('body > footer p')?.append(show);
document.body.append(dialog, spoken);
