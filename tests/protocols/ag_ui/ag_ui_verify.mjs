// The protocol's own schemas and verifier, over streams of events: one JSON list in each line of the input.
import { createInterface } from "node:readline";
import { EventSchemas } from "@ag-ui/core/schemas";
import { verifyEvents } from "@ag-ui/client";
import { from, lastValueFrom, toArray } from "rxjs";

let seen = 0;
for await (const line of createInterface({ input: process.stdin })) {
  const events = JSON.parse(line);
  try {
    events.forEach((event) => EventSchemas.parse(event));
    await lastValueFrom(from(events).pipe(verifyEvents(), toArray()));
  } catch (error) {
    console.log(JSON.stringify({ error: String(error.message), events }));
    process.exit(1);
  }
  seen += 1;
}
console.log(seen);
