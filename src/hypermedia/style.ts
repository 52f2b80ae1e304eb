/** The style sheet: one constant, in the page itself, named by hash in the Content-Security-Policy. */
export const style = `
:root{--ink:#1b2430;--soft:#5a6675;--paper:#f6f7f9;--card:#fff;--line:#dde2e8;--accent:#0b5fb0;--on-accent:#fff;--bad:#a4201d;--bad-paper:#fdecea}
@media (prefers-color-scheme:dark){:root{--ink:#e8ecf1;--soft:#a3afbd;--paper:#12161c;--card:#1a2029;--line:#313a46;--accent:#7db9f5;--on-accent:#0c1420;--bad:#ffb1a8;--bad-paper:#3a1a18}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
header{display:flex;justify-content:space-between;align-items:center;gap:1rem;padding:1rem 1.25rem;max-width:60rem;margin:0 auto}
.brand{font-weight:700;letter-spacing:.01em}
main{max-width:28rem;margin:1rem auto 3rem;padding:0 1rem}
.card{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:1.5rem}
h1{font-size:1.35rem;line-height:1.25;margin:0 0 .75rem}
p{margin:0 0 .75rem}.soft{color:var(--soft)}
label{display:block;font-weight:600;margin:.9rem 0 .3rem}
input[type=email],input[type=password],input[type=text],select{width:100%;padding:.65rem .75rem;font:inherit;color:inherit;background:var(--paper);border:1px solid var(--soft);border-radius:8px}
fieldset{border:1px solid var(--line);border-radius:8px;margin:1rem 0;padding:.5rem 1rem 1rem}
legend{font-weight:600;padding:0 .3rem}
.choice{display:flex;gap:.6rem;align-items:baseline;font-weight:400;margin:.5rem 0 0}
button{font:inherit;font-weight:600;padding:.65rem 1.1rem;border-radius:8px;border:1px solid var(--accent);background:var(--accent);color:var(--on-accent);cursor:pointer}
button.quiet{background:transparent;color:var(--accent)}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}
.buttons{display:flex;flex-wrap:wrap;gap:.75rem;margin-top:1.25rem}
.alert{background:var(--bad-paper);color:var(--bad);border-radius:8px;padding:.65rem .9rem;margin:0 0 1rem}
dl{display:grid;grid-template-columns:auto 1fr;gap:.3rem 1rem;margin:0 0 1rem}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
a{color:var(--accent)}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,monospace;overflow-wrap:anywhere}
ul{padding-left:1.2rem;margin:.25rem 0 .75rem}
`;
