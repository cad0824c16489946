// An MCP client on the TypeScript SDK: runs the server in argv, lists its tools, makes the calls
// that stand on stdin as JSON ([{name, arguments}]), and prints what came of all of it as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { readFileSync } from "node:fs";

const require = createRequire(pathToFileURL(process.env.MCP_MODULES + "/"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");

const [command, ...args] = process.argv.slice(2);
const calls = JSON.parse(readFileSync(0, "utf-8"));
const client = new Client({ name: "typescript", version: "1" });
const env = { ...process.env };
await client.connect(new StdioClientTransport({ command, args, env, stderr: "inherit" }));
const { tools } = await client.listTools();
const results = [];
for (const call of calls) {
  results.push(await client.callTool(call));
}
const server = client.getServerVersion();
await client.close();
console.log(JSON.stringify({ server, tools, results }));
