// The order service: GET /orders/NUMBER on loopback. Writes one line per request to its access log.
import { appendFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { makeFinder } from './orders.mjs';

const [port, logFile] = process.argv.slice(2);
const orders = Array.from({ length: 200_000 }, (_, i) => ({
  id: `A${String(i).padStart(7, '0')}`,
  total: (i * 7919) % 100_000,
}));
const find = makeFinder(orders);

createServer((request, response) => {
  const startedMs = performance.now();
  const id = decodeURIComponent(request.url.slice('/orders/'.length));
  const order = find(id);
  response.statusCode = order === undefined ? 404 : 200;
  response.end(JSON.stringify(order ?? { error: `order ${id} not found` }));
  const tookMs = (performance.now() - startedMs).toFixed(1);
  const agent = String(request.headers['user-agent'] ?? '-').replaceAll('"', "'");
  const when = new Date().toISOString();
  appendFileSync(
    logFile,
    `${when} "${request.method} ${request.url}" ${response.statusCode} ${tookMs}ms "${agent}"\n`,
  );
}).listen(Number(port), '127.0.0.1');
