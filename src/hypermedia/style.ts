/**
 * The style sheet: one constant within every page, named by its hash in the Content-Security-Policy, so pages have no
 * other styles and no attribute `style`. Its classes:
 *
 * - `card` a box with a margin; `who` a logo beside a heading
 * - `alert` an error, `mild` a problem that may solve itself, `good` a success message, `soft` less important text, `fault` the error of one field
 * - `buttons` a row of buttons; a `button` (also a link with that class) may be `quiet` or `danger`
 * - `field` a label, its control, its hint (`soft`) and its `fault`; `choices` a list of `choice`s, which scrolls if they are `many`
 * - `badge` a state that may be `fine`, `broken`, `caution` or `plain`; shell.ts gives it an icon, and buttons of some classes; `logo` an image of 48 px
 * - `title` a heading with its badges, `ways` the row of links below it; `kind` the type of resource above it; `pager`
 *   and `empty` of a collection
 * - `details.card` a folded action; `fold` long text, `reveal` a secret, both folded
 * - `crumbs` breadcrumbs above the heading; `tabs` the pages of a store below the header
 * - `search` the folded form of a collection, its `fields` side by side; `filters` the active filters
 * - `skip` the first link of a page, visible with the focus; `unseen` text for screen readers
 * - `lines` text with significant line ends; `values` a list or names with values in place of one value
 * - `timeline` documents in chronological order, each with its `moment`: result and date in one line
 * - `filter` a form in one row; `states` the tabs of a list; `entry` a title with its badge; `log` entries with their time beside them
 * - `side` a list in a row
 * - `head` a heading with its `actions` on the right; `panel` a form that is shown while it is the target of the address, or `open`
 * - `state` a heading that is a state of all, `fine` or `broken`; `concerns` a list of `concern`s, each with a button beside it;
 *   `facts` short facts in a row; `welcome` the page before the first item;
 *   `roomy` is not shown on a phone
 * - `entries` a list whose entries have several lines
 * - `lead` the most important sentence below a heading; `actions` forms that are buttons, side by side
 * - `rows` a list of things with their `actions` beside them; `unfolds` a form below its button
 * - `code` JSON with its `key`s, `text`s and other `value`s; `command` a shell command, which one click selects
 * - `intro` the heading and first sentences of the front page, `readers` its cards side by side
 * - `copies` a block beside its button `copy`, and `live` the state of a live list, which scripts add
 * - `charts` charts side by side; a `chart` has a `plot` with an `axis` beside and below it, whose labels are HTML
 *   (`keys` is the legend); a `bar` may be `bad` and is then `hatched`; a `trend` is a sparkline
 * - `table` the box around a table that scrolls by itself on a phone: a `section` with `tabindex="0"` and a label; in
 *   it `number` is a numeric cell, `brief` text cut to its column, and `parted` a row that continues in the next; with `cards`
 *   each row is a card on a phone, and `data-label` is shown before a value
 *
 * Contrasts are 4.5:1 for text and 3:1 for the borders of fields, in light and dark mode; click targets are 44 px high.
 */
import { readFileSync } from 'node:fs';

const FOLDER = new URL('build/svg/', import.meta.resolve('@primer/octicons'));

/**
 * The icons of states and of main actions: the selector of the element that begins with the icon, and the name of the icon, one of
 * GitHub's Octicons, whose paths become rules of the style sheet. Icons have the colour of their text and repeat its words, so they need
 * no markup, no label and no request.
 */
const ICONS: readonly (readonly [selector: string, icon: string])[] = [
  ['.badge', 'clock-fill-16'],
  ['.badge.fine', 'check-circle-fill-16'],
  ['.badge.broken', 'x-circle-fill-16'],
  ['.badge.plain', 'dot-fill-16'],
  ['.badge.caution', 'alert-fill-16'],
  ['.copy', 'copy-16'],
  ['.sign-in', 'sign-in-16'],
  ['.read', 'book-16'],
  ['.health', 'pulse-16'],
];

/** Returns the outline of an icon of 16 px. Throws if the package draws it in another way than by paths alone. */
function outlineOf(icon: string): string {
  const svg = readFileSync(new URL(`${icon}.svg`, FOLDER), 'utf8');
  const paths = [...svg.matchAll(/<path d="([\w\s.,-]+)"\/>/g)].map(([, path = '']) => path);
  const drawn = paths.map((path) => `<path d="${path}"/>`).join('');
  if (paths.length === 0 || !svg.includes(`viewBox="0 0 16 16">${drawn}</svg>`))
    throw new TypeError(`The icon ${icon} is not one of paths in 16 px`);
  return paths.join('');
}

const before = ICONS.map(([selector]) => `${selector}::before`).join(',');

/** The rules of the icons. */
export const iconRules = `${before}{content:"";flex:none;width:16px;height:16px;background:currentColor}
${ICONS.map(([selector, icon]) => `${selector}::before{clip-path:path("${outlineOf(icon)}")}`).join('\n')}
@media (forced-colors:active){${before}{background:CanvasText}}
`;

export const style = `
:root{color-scheme:light dark;--ink:#1b2430;--soft:#566270;--paper:#f4f6f8;--card:#fff;--line:#dce1e7;--edge:#7b8796;--accent:#0b5fb0;--on-accent:#fff;--bad:#a4201d;--bad-paper:#fdecea;--good:#14603a;--good-paper:#e5f4eb;--warn:#754600;--warn-paper:#fff0d1;--width:32rem}
@media (prefers-color-scheme:dark){:root{--ink:#e8ecf1;--soft:#a8b3c0;--paper:#11151b;--card:#1a2029;--line:#303945;--edge:#768393;--accent:#85bff8;--on-accent:#0c1420;--bad:#ffb4ab;--bad-paper:#3b1b19;--good:#9be0b6;--good-paper:#14301f;--warn:#f6cd84;--warn-paper:#35280c}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;overflow-wrap:break-word}
.wide{--width:66rem}
header,main,body>footer{max-width:var(--width);margin:0 auto;padding:0 1rem}
header:has(nav){--width:66rem}
header{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:center;gap:0 1rem;min-height:4rem;padding-top:.5rem;padding-bottom:.5rem}
header>*,h2,h3,dt,.badge,.ways a{overflow-wrap:anywhere}
.brand{display:inline-flex;align-items:center;gap:.5rem;font-weight:700;letter-spacing:.01em}
.brand img{display:block;height:32px;width:auto;max-width:12rem;object-fit:contain}
.drop::before{content:"";width:.8rem;height:.8rem;border-radius:50% 50% 50% 0;background:var(--accent)}
nav{display:flex;flex-wrap:wrap;align-items:center;gap:0 1.25rem}
nav a,nav button{display:inline-flex;align-items:center;min-height:2.75rem;padding:0;border:0;background:none;color:var(--accent);font:inherit;text-decoration:none;cursor:pointer}
nav a:hover,nav button:hover{background:none;text-decoration:underline}
nav [aria-current]{color:var(--ink);font-weight:600}
main{padding-bottom:4rem}
body>footer{padding-bottom:3rem;font-size:.9rem}
body>footer a{display:inline-block;margin-right:1rem;padding:.3rem 0}
.intro{max-width:46rem;margin:1.5rem 0 2rem}
.intro h1{font-size:2rem;margin:0 0 .75rem}
.intro p{font-size:1.15rem;color:var(--soft);margin:0}
.readers{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,17rem),1fr));gap:0 1.25rem}
.readers>.card{display:flex;flex-direction:column}
.readers .buttons{margin-top:auto}
.copies{position:relative;margin:0 0 1rem}
.reveal>.copies{margin:0;padding:.6rem 6rem .6rem 0}
.copies>pre{margin:0;padding-right:6rem}
.copy{position:absolute;top:0;right:0;padding:.3rem .9rem;border-color:transparent}
dialog{max-width:min(24rem,100% - 2rem);padding:1.5rem;border:1px solid var(--line);border-radius:12px;background:var(--card);color:var(--ink)}
dialog::backdrop{background:rgb(0 0 0/.4)}
dialog h2{margin:0 0 1rem}
dialog dl{grid-template-columns:3rem 1fr;margin-bottom:.5rem}
dialog .choice{padding:0}
kbd{display:inline-block;min-width:1.75rem;padding:0 .4rem;border:1px solid var(--edge);border-radius:6px;font:.9em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;text-align:center}
body>footer button{min-height:0;padding:.3rem 0;border:0;background:none;color:var(--accent);font-weight:400;text-decoration:underline}
main:has(+footer){padding-bottom:1rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1.5rem;margin:0 0 1.25rem}
h1{font-size:1.45rem;line-height:1.25;margin:0 0 1rem;text-wrap:balance}
h2{font-size:1.1rem;line-height:1.3;margin:1.75rem 0 .5rem}
.card>h2:first-child{margin-top:0}
h3{font-size:1rem;margin:1.25rem 0 .25rem}
p{margin:0 0 .85rem}
.card>:last-child,.card>form:last-child>:last-child{margin-bottom:0}
.soft{color:var(--soft)}
ul,ol{padding-left:1.25rem;margin:.25rem 0 1rem}
li{margin:.2rem 0}
a{color:var(--accent);text-underline-offset:.15em}
code,pre{font:.9em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
pre{white-space:pre-wrap;margin:0 0 1rem;padding:.75rem .9rem;background:var(--paper);border:1px solid var(--line);border-radius:8px}
hr{border:0;border-top:1px solid var(--line);margin:1.5rem 0}
.alert,.good{border-radius:8px;padding:.75rem 1rem;margin:0 0 1rem}
.alert{background:var(--bad-paper);color:var(--bad)}
.good{background:var(--good-paper);color:var(--good)}
.mild{background:var(--warn-paper);color:var(--warn)}
.alert a,.good a{color:inherit}
.alert>:last-child{margin-bottom:0}
.alert p{margin-bottom:.25rem}
.badge{display:inline-flex;align-items:baseline;gap:.25rem;max-width:100%;padding:.1rem .6rem;border-radius:1rem;background:var(--warn-paper);color:var(--warn);font-size:.85rem;font-weight:600}
.badge::before{align-self:center;scale:.8;margin-left:-.15rem}
.badge.fine{background:var(--good-paper);color:var(--good)}
.badge.broken{background:var(--bad-paper);color:var(--bad)}
.badge.plain{background:var(--paper);color:var(--soft)}
${iconRules}.kind{margin:0;color:var(--soft)}
.title{display:flex;flex-wrap:wrap;align-items:center;gap:.25rem .75rem;margin:0 0 .5rem}
.title+.alert{margin-top:1rem}
.title+.ways:last-child{flex-direction:column;align-items:flex-start}
.title h1{margin:0;min-width:0;overflow-wrap:anywhere}
.ways{display:flex;flex-wrap:wrap;gap:0 1.25rem;margin:0 0 1rem}
p.ways a{padding:.3rem 0}
.crumbs{gap:0;font-size:.95rem;margin:-.5rem 0 .25rem}
.crumbs a+a::before{content:"›";content:"›"/"";margin:0 .5rem;color:var(--soft)}
.tabs{flex:1 0 100%;border-bottom:1px solid var(--line)}
.tabs [aria-current]{box-shadow:inset 0 -3px var(--accent)}
.tabs form{display:flex;gap:.4rem;margin-left:auto;padding:.3rem 0}
.tabs form input{width:8rem;min-height:2.25rem;padding:.25rem .6rem}
.tabs form button{min-height:2.25rem;padding:.25rem .4rem;width:auto}
.tabs>strong{max-width:10rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.search{margin:0 0 .75rem}
.search>summary{padding:.6rem 0;color:var(--accent);font-weight:600}
.fields{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,14rem),1fr));gap:0 1rem}
.search .field{margin:.4rem 0}
.search .buttons{margin:.5rem 0 0}
.filters{display:flex;flex-wrap:wrap;align-items:center;gap:.4rem .6rem}
.filters a{display:inline-flex;gap:.4rem;align-items:center;min-height:2rem;padding:.1rem .7rem;border:1px solid var(--edge);border-radius:1rem;text-decoration:none;overflow-wrap:anywhere}
.states{gap:0 1.25rem;margin:0 0 1rem;border-bottom:1px solid var(--line)}
.states [aria-current]{box-shadow:inset 0 -3px var(--accent)}
.entry{display:flex;flex-wrap:wrap;gap:.25rem .75rem;align-items:baseline}
.filter{display:flex;flex-wrap:wrap;align-items:end;gap:.5rem 1rem;margin:0 0 1rem}
.filter .field{flex:1 1 10rem;max-width:18rem;margin:0}
.filter .field>:last-child{margin:0}
.filter a{padding:.6rem 0}
.codes{user-select:all}
.log{list-style:none;margin:0;padding:0}
.log>li{display:grid;grid-template-columns:7rem minmax(0,1fr);gap:0 1rem;margin:0;padding:.6rem 0;border-bottom:1px solid var(--line)}
.log p{margin:0}
.log .fold>summary{padding:.25rem 0;font-size:.9rem}
.log+.pager{margin-top:.75rem}
.log time{color:var(--soft);font-variant-numeric:tabular-nums}
.lead{font-size:1.05rem}
.card>.actions{margin:1rem 0}
.live{display:flex;flex-wrap:wrap;align-items:center;gap:.25rem .75rem;margin:.75rem 0 0}
.live+div>.card:first-child{margin-top:1rem}
.actions .buttons{margin:0}
.code .key{display:inline;color:var(--accent)}
.code .text{color:var(--good)}
.code .value{color:var(--warn)}
.rows{list-style:none;margin:1rem 0;padding:0}
.rows>li{display:flex;flex-wrap:wrap;justify-content:space-between;gap:.25rem 1.5rem;margin:0;padding:.75rem 0;border-top:1px solid var(--line)}
.rows p{margin:0}
.rows>li>:first-child{flex:1 1 16rem;min-width:0;overflow-wrap:anywhere}
.rows .actions{align-items:flex-start;margin:0}
.rows .actions form p{margin:0 0 .75rem;max-width:24rem}
.unfolds{margin:1rem 0}
.unfolds>summary{list-style:none}
.unfolds>summary::-webkit-details-marker{display:none}
.unfolds[open]>summary{margin-bottom:1rem}
.unfolds>form{max-width:32rem}
.actions>.unfolds{margin:0}
.actions>.unfolds[open]{flex:1 1 100%}
.unfolds>summary+p{margin:0}
.command{-webkit-user-select:all;user-select:all}
.unseen{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.skip{position:absolute;left:1rem;top:-4rem;padding:.6rem 1rem;background:var(--card);border-radius:0 0 8px 8px}
.skip:focus{top:0}
main:focus{outline:0}
progress{width:min(100%,16rem);height:.8rem;vertical-align:middle;accent-color:var(--accent)}
.pager{display:flex;flex-wrap:wrap;align-items:center;gap:0 1.25rem;margin:0}
.empty{padding:1rem 0}
.empty p{margin:0 0 .25rem}
.lines{white-space:pre-line}
.values,.values>:first-child{margin:0}
ul.values{padding-left:1rem}
ul.side{display:flex;flex-wrap:wrap;gap:.1rem 1.25rem;padding:0;list-style:none}
ul.side li{margin:0}
summary{cursor:pointer}
details.card{padding:0}
details.card>summary{padding:1rem 1.5rem;font-weight:600;border-radius:12px}
details.card>form{max-width:45rem;padding:0 1.5rem 1.5rem}
.fold>summary,.reveal>summary{padding:.6rem 0;color:var(--accent)}
.fold>pre{margin-top:.25rem}
dd>.fold>summary{padding-top:0}
.reveal>summary{padding:0;min-height:1.5rem}
.reveal .mask{letter-spacing:.1em;color:var(--soft)}
.reveal[open] .mask,.reveal[open] .show,.reveal:not([open]) .hide{display:none}
.who{display:flex;align-items:center;gap:.9rem;margin:0 0 1rem}
.who h1,.who p{margin:0}
.entries{list-style:none;margin:0;padding:0}
.entries>li+li{border-top:1px solid var(--line);margin-top:1.5rem;padding-top:1.25rem}
.logo{flex:none;width:48px;height:48px;border-radius:10px;object-fit:contain;background:#fff;border:1px solid var(--line)}
dl{display:grid;grid-template-columns:minmax(6.5rem,auto) 1fr;gap:.45rem 1rem;margin:0 0 1.25rem}
dt{color:var(--soft)}
dd{margin:0;min-width:0;overflow-wrap:anywhere}
dd+dd{grid-column:-2}
label,legend{font-weight:600}
label{display:block;margin:1rem 0 .3rem}
.field{margin:1rem 0}
.field>*{margin-bottom:.3rem}
.field label{margin-top:0}
.fault{color:var(--bad);margin:.3rem 0 0}
input,select,textarea{font:inherit;color:inherit}
input:not([type=radio],[type=checkbox],[type=hidden],[type=file]),select,textarea{display:block;width:100%;min-height:2.75rem;padding:.55rem .75rem;background:var(--card);border:1px solid var(--edge);border-radius:8px}
textarea{min-height:6.5rem;resize:vertical}
[aria-invalid=true]:not([type=radio],[type=checkbox]){border-color:var(--bad)}
[hidden]{display:none!important}
input[type=file]{display:block;width:100%;min-height:2.75rem;padding:.4rem 0}
::file-selector-button{min-height:2.5rem;margin:0 .75rem 0 0;padding:.35rem .9rem;border-radius:8px;border:1px solid var(--edge);background:var(--paper);color:inherit;font:inherit;cursor:pointer}
input[type=radio],input[type=checkbox]{flex:none;width:1.25rem;height:1.25rem;margin:0;accent-color:var(--accent)}
fieldset{min-width:0;border:1px solid var(--line);border-radius:8px;margin:1.25rem 0;padding:.25rem .5rem .5rem}
legend{padding:0 .5rem}
fieldset>p{margin:.25rem .6rem}
.choices{padding:3px}
.choices.many{max-height:17.5rem;overflow-y:auto}
.choice{display:flex;gap:.8rem;align-items:center;min-height:2.75rem;margin:0;padding:.3rem .6rem;border-radius:6px;font-weight:400;cursor:pointer}
.choice>span{min-width:0;overflow-wrap:anywhere}
.choice .soft{display:block;font-size:.9rem;line-height:1.35}
.choice:hover,.choice:has(:checked){background:var(--paper)}
.choices:has([value=""]:not(:checked))+.other{display:none}
.other{padding:.3rem .6rem}
button,.button{display:inline-flex;justify-content:center;align-items:center;gap:.5rem;min-height:2.75rem;padding:.55rem 1.25rem;border-radius:8px;border:1px solid var(--accent);background:var(--accent);color:var(--on-accent);font:inherit;font-weight:600;text-decoration:none;cursor:pointer}
.quiet{background:transparent;color:var(--accent)}
.danger{border-color:var(--bad);background:var(--bad);color:var(--card)}
.quiet.danger{background:transparent;color:var(--bad)}
button:hover,.button:hover{filter:brightness(1.08)}
form+p{margin-top:1.25rem}
.buttons{display:flex;flex-wrap:wrap;gap:.75rem;margin:1.5rem 0 0}
.table{overflow-x:auto;margin:0 0 1rem}
table{width:100%;border-collapse:collapse}
caption{text-align:left;font-weight:600;padding:0 0 .5rem}
th,td{max-width:18rem;padding:.6rem .75rem .6rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{color:var(--soft);font-weight:600}
thead th{vertical-align:bottom}
td{min-width:6.5rem}
td[colspan]{max-width:none}
th[scope=row]{color:inherit;white-space:normal;min-width:9rem}
.number{min-width:0;padding-right:1rem;text-align:right;font-variant-numeric:tabular-nums}
dl.figures{display:flex;flex-wrap:wrap;gap:.75rem 2.25rem}
.figures dd{font-size:1.25rem;font-weight:600;font-variant-numeric:tabular-nums;margin:0}
dd .table{margin:0}
dd th{padding-top:0}
dd td,.chart td{min-width:0}
tbody .badge,tbody time{white-space:nowrap}
tbody time>span{display:block;color:var(--soft);font-size:.9rem;white-space:normal}
.brief{display:block;max-width:15rem;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.parted>*{border-bottom:0;padding-bottom:.1rem}
.parted+tr>td{padding-top:0;padding-bottom:.4rem}
.parted+tr summary{padding:.25rem 0;font-size:.9rem}
.parted+tr .fold{padding-bottom:.4rem}
.timeline{list-style:none;margin:0;padding:0}
.timeline>li{position:relative;margin:0;padding:0 0 1rem 1.5rem;border-left:2px solid var(--line)}
.timeline>li:last-child{padding-bottom:0}
.timeline>li::before{content:"";position:absolute;left:-.45rem;top:.45rem;width:.8rem;height:.8rem;border-radius:50%;background:var(--card);border:2px solid var(--edge)}
.timeline p{margin:0 0 .35rem}
.table .timeline{padding-left:.45rem}
.moment{display:flex;flex-wrap:wrap;align-items:baseline;gap:.1rem 1rem}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:1.25rem 2rem;margin:.5rem 0 1rem}
.chart{display:grid;grid-template-rows:subgrid;grid-row:span 3;row-gap:0;margin:0;min-width:0}
.chart>*{min-width:0}
figcaption{margin:0 0 1rem}
figcaption>*{display:block}
.plot{display:grid;grid-template-columns:auto 1fr;gap:.4rem .6rem}
.plot svg{display:block;width:100%;height:10rem;overflow:visible}
.axis{display:flex;justify-content:space-between;color:var(--soft);font-size:.85rem;line-height:1;font-variant-numeric:tabular-nums;white-space:nowrap}
.axis.up{flex-direction:column;align-items:flex-end;margin:-.5em 0}
.axis:last-child{grid-column:2}
.axis>:only-child{margin:auto}
.plot path,.trend path{vector-effect:non-scaling-stroke}
.plot path:not(.bar,.hatched),.trend path{fill:none}
.across{stroke:var(--line)}
.curve{stroke:var(--accent);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.dot{stroke-width:8}
.plot .area{fill:var(--accent);fill-opacity:.12}
.bar{fill:var(--accent)}
.bar.bad{fill:var(--bad)}
.hatch{stroke:var(--card);stroke-width:1.5}
.hint{fill:transparent}
.hint:hover{fill:var(--ink);fill-opacity:.08}
.curve.beside{stroke:var(--warn);stroke-dasharray:6 4}
.keys{display:flex;flex-wrap:wrap;gap:0 1.25rem;font-size:.9rem}
.key{display:inline-flex;align-items:center;gap:.4rem}
.key svg{width:24px;height:12px}
.trend{width:7rem;height:1.5rem;overflow:visible;vertical-align:middle}
.head{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:center;gap:.75rem 2rem;margin:0 0 .75rem}
.head>.title{flex:1 1 12rem;min-width:0}
.head :is(h2,.title){margin:0}
.actions{display:flex;flex-wrap:wrap;gap:.5rem}
.actions :is(button,.button),.head>.button{padding:.45rem .9rem}
.panel{position:relative;margin:0 0 1.25rem;padding:1.25rem;background:var(--paper);border:1px solid var(--line);border-radius:10px;scroll-margin-top:9rem}
.panel:not(:target,.open){display:none}
.panel>h2{margin:0 4rem .5rem 0}
.panel>form{max-width:45rem}
.panel>.close{position:absolute;top:.6rem;right:1.25rem;padding:.6rem 0}
.figures.strip{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.75rem 1.25rem}
.figures dd+dd{font-size:.9rem;font-weight:400}
.figures .ago,.log time .ago{display:block;font-size:.9rem;font-weight:400;color:var(--soft)}
#enable:target button,#enable button:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
.state{display:flex;gap:.6rem;align-items:baseline}
.state::before{content:"";flex:none;width:.75rem;height:.75rem;border-radius:50%;background:var(--good)}
.state.broken::before{background:var(--bad);border-radius:2px}
.state:last-child{margin:0}
.concerns{list-style:none;margin:0;padding:0}
.concern{display:flex;flex-wrap:wrap;justify-content:space-between;align-items:center;gap:.75rem 2rem;margin:0;padding:1.25rem 0;border-top:1px solid var(--line)}
.concern:last-child{padding-bottom:0}
.concern>div:first-child{flex:1 1 22rem;min-width:0}
.concern h2{margin:0 0 .35rem}
.concern h2 .badge{margin-left:.35rem}
.concern p{margin:0 0 .35rem}
.facts{display:flex;flex-wrap:wrap;gap:0 .6rem}
.facts span+span::before{content:"·";content:"·"/"";margin-right:.6rem}
.welcome{padding:3rem 1.5rem;text-align:center}
.welcome p{max-width:34rem;margin:0 auto 1.5rem}
@media (max-width:30rem){.actions>*{flex:1 1 auto}.actions button{width:100%}.roomy{display:none}.table:has(.roomy) :is(td,th){min-width:0}.facts{display:block}.facts span{display:block}.facts span+span::before{content:none}.concern .button{flex:1 1 100%}.states{flex-wrap:nowrap;overflow-x:auto;white-space:nowrap}.log>li{grid-template-columns:minmax(0,1fr)}.filter button{flex:1 1 100%}header{min-height:0}header nav{gap:0 1rem;flex-wrap:nowrap;overflow-x:auto;white-space:nowrap;padding-right:.5rem}header nav:not(.tabs){flex:1;min-width:0}header nav:not(.tabs)>:first-child{margin-left:auto}.axis .middle{display:none}.card{padding:1.15rem 1rem}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.6rem}.values dd{margin-bottom:.2rem}details.card>summary{padding:.9rem 1rem}details.card>form{padding:0 1rem 1.15rem}.buttons>*{flex:1 1 auto}.parted+tr .fold{position:sticky;left:0;max-width:calc(100vw - 4.2rem)}.cards :is(table,tbody,tr,td,th[scope=row]){display:block}.cards thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}.cards tr{border-bottom:1px solid var(--line);padding:.6rem 0}.cards .parted{border:0;padding-bottom:0}.cards :is(td,th[scope=row]){border:0;padding:.1rem 0;min-width:0;text-align:left}.cards td[data-label]::before{content:attr(data-label) ": ";color:var(--soft)}}
`;
