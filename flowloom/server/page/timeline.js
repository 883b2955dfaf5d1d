import { html } from "./html.js";
import { Empty } from "./parts.js";

/** One row for each event. */
export const Timeline = () => html`<${Empty} title="No events yet">Send a message: each event of the run gets a row here.</${Empty}>`;
