// Starts the rehearsal server: loads the screenplays, listens, prints one JSON line when ready, and
// stops on SIGTERM, on SIGINT or, with --exit-with-stdin, when standard input closes.
import { chmodSync, unlinkSync } from 'node:fs';
import type { Server } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type ListenAddress, parseCommandLine, USAGE } from './command-line.ts';
import { formatProblem, loadScreenplays } from './screenplay/load.ts';
import { createRehearsalServer } from './server.ts';

const EXIT_STATUS = { usage: 2, notListening: 6, badConfiguration: 78 };

function printError(message: string, hint: string): void {
  process.stderr.write(`rehearsal: ${message}\n${hint}\n`);
}

function listen(server: Server, address: ListenAddress): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    const done = () => {
      server.off('error', reject);
      resolve();
    };
    if (address.kind === 'unix') server.listen(address.path, done);
    else server.listen(address.port, address.host, done);
  });
}

/** Resolves to true for a socket file left by a killed server: no process accepts on it. */
function isStaleSocket(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'));
  });
}

async function listenOrReplace(server: Server, address: ListenAddress): Promise<void> {
  try {
    await listen(server, address);
  } catch (error) {
    const isInUse = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
    if (!isInUse || address.kind !== 'unix' || !(await isStaleSocket(address.path))) throw error;
    unlinkSync(address.path);
    await listen(server, address);
  }
  if (address.kind === 'unix') chmodSync(address.path, 0o600);
}

function formatAddress(server: Server, address: ListenAddress): string {
  if (address.kind === 'unix') return address.path;
  const bound = server.address();
  const port = bound !== null && typeof bound === 'object' ? bound.port : address.port;
  return address.host.includes(':') ? `[${address.host}]:${port}` : `${address.host}:${port}`;
}

function installStopHandlers(server: Server, exitsOnStdinEnd: boolean): void {
  const stop = () => {
    // close() also removes the socket file. Endless replies would keep the process alive.
    server.close(() => process.exit(0));
    server.closeAllConnections();
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
  if (!exitsOnStdinEnd) return;
  process.stdin.once('end', stop).once('error', stop).resume();
}

async function main(args: readonly string[]): Promise<number | undefined> {
  const options = parseCommandLine(args);
  if (options === 'help') {
    process.stdout.write(USAGE);
    return 0;
  }
  if (typeof options === 'string') {
    printError(options, USAGE);
    return EXIT_STATUS.usage;
  }
  const shipped = join(import.meta.dirname, 'screenplays');
  const { scenarios, problems } = loadScreenplays([...options.screenplays, shipped]);
  for (const problem of problems) printError(formatProblem(problem), 'Fix it and start again.');
  if (problems.length > 0) return EXIT_STATUS.badConfiguration;
  if (options.isCheckOnly) {
    process.stdout.write(
      `${JSON.stringify({ plays: scenarios.map((scenario) => scenario.name) })}\n`,
    );
    return 0;
  }
  const server = createRehearsalServer(scenarios);
  try {
    await listenOrReplace(server, options.address);
  } catch (error) {
    printError(
      `cannot listen: ${String(error)}`,
      'Choose another --listen, or stop the process that uses it.',
    );
    return EXIT_STATUS.notListening;
  }
  installStopHandlers(server, options.exitsOnStdinEnd);
  const ready = { ready: true, address: formatAddress(server, options.address) };
  process.stdout.write(`${JSON.stringify(ready)}\n`);
  // Collects the garbage of the startup once, if --expose-gc is set.
  setTimeout(() => globalThis.gc?.({ type: 'major', flavor: 'last-resort' }), 1_000).unref();
  return undefined;
}

const exitStatus = await main(process.argv.slice(2));
if (exitStatus !== undefined) process.exitCode = exitStatus;
