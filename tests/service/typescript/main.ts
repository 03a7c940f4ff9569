// Calls a server through a client that was generated from its /openapi.json: node main.js URL TOKEN
declare const process: { argv: string[] };
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Decision = components["schemas"]["DecisionBody"];

const [url, token] = process.argv.slice(2);
const client = createClient<paths>({
  baseUrl: url,
  headers: { Authorization: `Bearer ${token}` },
});
const vectors = { params: { path: { name: "default" } } };
const table = { params: { path: { name: "loans" } } };

const first: Decision = { x: [1.0, 2.0], z: "a", key: "one" };
const observed = await client.POST("/v1/monitors/{name}/observe", { ...vectors, body: first });
const checked = await client.POST("/v1/monitors/{name}/check", {
  ...vectors,
  body: { x: [1.05, 2.0], z: "b" },
});
const columns = await client.POST("/v1/monitors/{name}/batch", {
  ...vectors,
  body: { x: [[1.0, 2.0], [9.0, 9.0]], z: ["b", "b"] },
});
const rows = await client.POST("/v1/monitors/{name}/batch", {
  ...table,
  body: { decisions: [{ values: { age: 41, job: "nurse", approved: "no" } }] },
});
const row = await client.POST("/v1/monitors/{name}/observe", {
  ...table,
  body: { values: { age: 42, job: "nurse", approved: "yes" } },
});
const refused = await client.POST("/v1/monitors/{name}/observe", {
  ...vectors,
  body: { ...first, z: "b" },
});
console.log(
  JSON.stringify({
    row: observed.data?.row,
    checked: checked.data?.witnesses?.map((witness) => witness.key),
    violations: columns.data?.violations,
    decisions: rows.data?.decisions,
    contradicts: row.data?.violation,
    refused: refused.error?.code,
  }),
);
