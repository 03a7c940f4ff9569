// Tells a likewise service of decisions from JavaScript: Node's own fetch, no package.
//
//   node decide.mjs http://127.0.0.1:8800 [TOKEN]

const [url, token = ""] = process.argv.slice(2);

async function ask(route, body, attempts = 6) {
  for (let attempt = 1; ; attempt++) {
    try {
      const response = await fetch(`${url}/v1/monitors/default/${route}`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(10_000),
      });
      if (response.ok) return await response.json();
      const { code, message } = await response.json();
      if (response.status !== 429 && response.status !== 503) throw new Error(`${code}: ${message}`);
      if (attempt === attempts) throw new Error(message);
    } catch (error) {
      // Not answered. With a ledger and a key it may be sent again: it is never taken twice.
      const unanswered = error instanceof TypeError || error.name === "TimeoutError";
      if (!unanswered || attempt === attempts) throw error;
    }
    await new Promise((done) => setTimeout(done, 100 * 2 ** attempt));
  }
}

await ask("observe", { x: [0.5, 0.3], z: "approved", key: "loan-1" });
const verdict = await ask("observe", { x: [0.55, 0.3], z: "declined", key: "loan-2" });
for (const witness of verdict.witnesses) {
  console.log(`loan-2 contradicts ${witness.key}, ${witness.input_distance.toFixed(2)} away`);
}
