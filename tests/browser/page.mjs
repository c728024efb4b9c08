// Opens docs/examples/browser.html in headless Chromium and uses it as somebody would. Says on standard output how far it is,
// and last what it has seen, a line of JSON each.
//
//     node page.mjs CHROMIUM PAGE TOKEN MESSAGE

import { chromium } from "playwright-core";

const [executablePath, address, token, message] = process.argv.slice(2);
const QUIET = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const DEADLINE = 30_000;

const browser = await chromium.launch({ executablePath, args: QUIET, timeout: DEADLINE });
const page = await browser.newPage();
page.setDefaultTimeout(DEADLINE);
const problems = [];
page.on("pageerror", (error) => problems.push(String(error)));
const addresses = [];
page.on("request", (request) => addresses.push(request.url()));
const say = (what) => console.log(JSON.stringify(what));

await page.goto(address);
await page.fill("[name=token]", token);
await page.click("#sign-in button");
await page.locator("#sign-in").waitFor({ state: "detached" });
await page.fill("[name=text]", message);
await page.click("#ask button");
await page.locator("#events li").first().waitFor();
say({ step: "following" });

await page.getByRole("button", { name: "Approve" }).waitFor();
say({ step: "asked" });
// Until the server that has been killed meanwhile is there again, the page waits for it.
await page.getByRole("button", { name: "Approve" }).click();
await page.locator("#events li", { hasText: /^run\.(completed|failed|cancelled)$/ }).waitFor();
const events = await page.locator("#events li").evaluateAll((items) => items.map((item) => ({ sequence: item.value, type: item.textContent })));
const stream = addresses.findLast((address) => address.includes("/events"));

// Whoever does not close the stream at its end is told by 204 to stop.
const before = addresses.length;
const state = await page.evaluate((address) => new Promise((resolve) => {
  const source = new EventSource(address, { withCredentials: true });
  source.onerror = () => source.readyState === EventSource.CLOSED && resolve(source.readyState);
}), stream);
say({
  step: "ended",
  events,
  answer: await page.locator("#answer").textContent(),
  problem: await page.locator("#problem").textContent(),
  problems,
  addresses,
  cookies: await page.evaluate(() => document.cookie),
  requests_after_the_end: addresses.length - before,
  closed: state === 2,
});
await browser.close();
