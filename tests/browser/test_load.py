"""The page under load: thousands of events, a hundred a second, and what that leaves in memory (server spec §12)."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
from browser.driving import Driven, events_of
from playwright.sync_api import expect
from server.serving import Running

Open = Callable[..., Driven]
pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]

OPENING = """async (address) => {
  const from = performance.now();
  history.pushState(null, "", address);
  dispatchEvent(new PopStateEvent("popstate"));
  const last = '[data-event="e004999"][data-testid="message"]';
  while (!document.querySelector(last)) await new Promise(requestAnimationFrame);
  return performance.now() - from;
}"""
"""How many milliseconds it takes until the last event of a session is seen."""
FRAMES = 90
SCROLLING = """async (selector) => {
  const box = document.querySelector(selector);
  let long = 0;
  const seen = new PerformanceObserver((list) => { for (const each of list.getEntries()) long += each.duration; });
  seen.observe({ type: "longtask" });
  for (let frame = 0; frame < 90; frame += 1) {
    box.scrollTop = Math.max(0, box.scrollTop - 160);
    await new Promise(requestAnimationFrame);
  }
  await new Promise((done) => setTimeout(done, 100));
  seen.disconnect();
  return long;
}"""
"""Scrolls up for `FRAMES` frames; the milliseconds of its long tasks."""
PLAIN = """() => {
  const box = Object.assign(document.createElement("div"), { id: "plain" });
  box.style.cssText = "position: fixed; inset: 0; overflow: auto; z-index: 9; background: white";
  const inner = document.createElement("div");
  inner.style.height = "120000px";
  box.append(inner);
  box.addEventListener("scroll", () => {
    const rows = Array.from({ length: 30 }, (_, index) => {
      const row = document.createElement("div");
      row.style.cssText = `position: absolute; height: 40px; top: ${box.scrollTop + index * 40}px`;
      return row;
    });
    inner.replaceChildren(...rows);
  });
  document.body.append(box);
  box.scrollTop = 120000;
}"""
"""An empty windowed list, for comparison."""
PAINTS = """() => {
  window.arrived = [];
  window.lags = [];
  const real = window.fetch;
  window.fetch = async (address, options) => {
    const response = await real(address, options);
    if (!String(address).includes("/run_sse")) return response;
    const noting = new TransformStream({
      transform(chunk, controller) {
        const found = new TextDecoder().decode(chunk).match(/w\\d+ /g);
        if (found) arrived.push([found.at(-1), performance.now()]);
        controller.enqueue(chunk);
      },
    });
    return new Response(response.body.pipeThrough(noting), { status: response.status, headers: response.headers });
  };
  window.frames = 0;
  window.painted = new Map();
  const frame = () => { frames += 1; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  window.long = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((each) => (long += each.duration)))
    .observe({ type: "longtask" });
  const look = (changes) => {
    const drawn = changes.some(({ target }) => target.nodeType === Node.TEXT_NODE);
    if (drawn) painted.set(frames, (painted.get(frames) ?? 0) + 1);
    const text = [...document.querySelectorAll("[data-testid=message-text]")].at(-1)?.textContent ?? "";
    while (arrived.length && (text + " ").includes(arrived[0][0])) lags.push(performance.now() - arrived.shift()[1]);
  };
  const seen = { childList: true, subtree: true, characterData: true };
  new MutationObserver(look).observe(document.querySelector(".chat"), seen);
}"""
"""Notes when words arrive, when they stand in the chat, and how often the text changes in a frame."""


def nodes(page: Driven) -> int:
    return page.page.evaluate("() => document.querySelectorAll('*').length")


def cpu_of(page: Driven) -> Callable[[], float]:
    """Gives the seconds that the page's thread has worked: not those in which other processes did."""
    session = page.page.context.new_cdp_session(page.page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def worked() -> float:
        metrics = session.send("Performance.getMetrics")["metrics"]
        return next(each["value"] for each in metrics if each["name"] == "TaskDuration")

    return worked


def test_five_thousand_events_open_and_scroll(opened: Open, server: Running) -> None:
    """They open in a second, scroll like an empty list, and are few in the document and in memory."""
    session = server.new_session(events=events_of(5000, "Event {} " + "with some words to read. " * 8))
    page = opened("/ui/desk/ann")
    opening: list[float] = []
    while len(opening) < 5 and min(opening, default=1000) >= 1000:  # the machine does other things, too
        page.goto("/ui/desk/ann")
        opening.append(page.page.evaluate(OPENING, f"/ui/desk/ann/{session}"))
    assert min(opening) < 1000
    expect(page.find("totals")).to_contain_text("5,000 events")
    worked = cpu_of(page)
    for _ in range(4):  # the machine does other things, too: in one round of four both have it for themselves
        before = worked()
        ours = [page.page.evaluate(SCROLLING, "[data-testid=messages]") for _ in range(5)]
        frame = (worked() - before) / (5 * FRAMES)
        assert nodes(page) < 3000
        page.page.evaluate(PLAIN)
        plain = [page.page.evaluate(SCROLLING, "#plain") for _ in range(5)]
        page.page.evaluate("() => document.querySelector('#plain').remove()")
        if statistics.median(ours) <= max(1.5 * statistics.median(plain), 100):
            break
    else:  # or never: tasks are long by the clock then, and what the page does itself has to fit into its frames
        assert frame < 1 / 60, (frame, ours, plain)
    used: Any = page.page.evaluate("() => performance.memory.usedJSHeapSize")
    assert used < 150e6


def test_a_hundred_events_a_second_for_thirty_seconds(opened: Open) -> None:
    """Words appear within 100 ms of their frame (95 of 100), no key is dropped, and scrolling up ends the following."""
    page = opened()
    page.say("hello", answered="You said")
    page.page.evaluate(PAINTS)
    worked = cpu_of(page)
    before, began, drawn = worked(), time.monotonic(), page.page.evaluate("frames")
    page.find("composer").fill("ticks 3000")
    page.find("composer").press("Enter")
    expect(page.messages.last).to_contain_text("w100 ")
    page.find("composer").press_sequentially("typed while it streams", delay=20)
    expect(page.find("composer")).to_have_value("typed while it streams")
    expect(page.messages.last).to_contain_text("w900 ", timeout=100_000)  # more than the window holds
    page.find("messages").hover()
    page.page.mouse.wheel(0, -3000)
    expect(page.find("to-end")).to_be_visible()
    top = page.page.evaluate("() => document.querySelector('[data-testid=messages]').scrollTop")
    page.page.wait_for_timeout(1000)
    assert abs(page.page.evaluate("() => document.querySelector('[data-testid=messages]').scrollTop") - top) < 2
    page.find("to-end").click()
    expect(page.find("send")).to_be_visible(timeout=200_000)
    expect(page.messages.last).to_contain_text("w2999")
    lags = sorted(page.page.evaluate("lags"))
    assert len(lags) > 1000
    took, late, long = time.monotonic() - began, lags[int(len(lags) * 0.95)], page.page.evaluate("long")
    busy, frames = (worked() - before) / took, (page.page.evaluate("frames") - drawn) / took
    in_time = late < 100 and long < 0.2 * 30_000
    # others have the machine where few frames are drawn: what the page does itself has to leave half of the time then
    assert in_time or (frames < 30 and busy < 0.5), (late, long, frames, busy)
    changes = page.page.evaluate("[...painted.values()]")
    assert len(changes) > 500
    assert sum(each > 1 for each in changes) <= 0.02 * len(changes)  # one paint for a frame
