// Starts the page.

import { PAGE } from "./api.js";
import { html, render } from "./html.js";
import { Shell } from "./shell.js";
import { loadApps } from "./store.js";

document.querySelector('link[rel="icon"]').href = `${PAGE}icon.svg`; // wherever the address goes from here
render(html`<${Shell} />`, document.getElementById("page"));
loadApps();
