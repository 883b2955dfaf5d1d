// Starts the page.

import { html, render } from "./html.js";
import { Shell } from "./shell.js";
import { loadApps } from "./store.js";

render(html`<${Shell} />`, document.getElementById("page"));
loadApps();
