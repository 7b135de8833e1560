// Entry of the rehearsal server: reads the command line and the screenplays, listens, says one JSON
// line when it is ready, and stops on SIGTERM, SIGINT or, if asked, when standard input closes.
import { chmodSync, unlinkSync } from 'node:fs';
import type { Server } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { type Address, parseCommandLine, USAGE } from './command-line.ts';
import { formatProblem, loadScreenplays } from './screenplay/load.ts';
import { createRehearsalServer } from './server.ts';

const EXIT = { usage: 2, notListening: 6, badConfiguration: 78 };

function complain(message: string, next: string): void {
  process.stderr.write(`rehearsal: ${message}\n${next}\n`);
}

function listen(server: Server, address: Address): Promise<void> {
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

/** True when nobody answers behind a socket that a killed server has left. */
function isAbandoned(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'ECONNREFUSED'));
  });
}

async function listenOrReplace(server: Server, address: Address): Promise<void> {
  try {
    await listen(server, address);
  } catch (error) {
    const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE';
    if (!isTaken || address.kind !== 'unix' || !(await isAbandoned(address.path))) throw error;
    unlinkSync(address.path);
    await listen(server, address);
  }
  if (address.kind === 'unix') chmodSync(address.path, 0o600);
}

function nameAddress(server: Server, address: Address): string {
  if (address.kind === 'unix') return address.path;
  const bound = server.address();
  const port = bound !== null && typeof bound === 'object' ? bound.port : address.port;
  return address.host.includes(':') ? `[${address.host}]:${port}` : `${address.host}:${port}`;
}

function stopWhenTold(server: Server, exitsWithStdin: boolean): void {
  const stop = () => {
    // A closed listener removes its socket file; answers without end would keep the process alive.
    server.close(() => process.exit(0));
    server.closeAllConnections();
  };
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
  if (!exitsWithStdin) return;
  process.stdin.once('end', stop).once('error', stop).resume();
}

async function main(words: readonly string[]): Promise<number | undefined> {
  const options = parseCommandLine(words);
  if (options === 'help') {
    process.stdout.write(USAGE);
    return 0;
  }
  if (typeof options === 'string') {
    complain(options, USAGE);
    return EXIT.usage;
  }
  const shipped = join(import.meta.dirname, 'screenplays');
  const { plays, problems } = loadScreenplays([...options.screenplays, shipped]);
  for (const problem of problems) complain(formatProblem(problem), 'Correct it and start again.');
  if (problems.length > 0) return EXIT.badConfiguration;
  if (options.onlyChecks) {
    process.stdout.write(`${JSON.stringify({ plays: plays.map((play) => play.name) })}\n`);
    return 0;
  }
  const server = createRehearsalServer(plays);
  try {
    await listenOrReplace(server, options.address);
  } catch (error) {
    complain(`cannot listen: ${String(error)}`, 'Choose another --listen, or stop who holds it.');
    return EXIT.notListening;
  }
  stopWhenTold(server, options.exitsWithStdin);
  const ready = { ready: true, address: nameAddress(server, options.address) };
  process.stdout.write(`${JSON.stringify(ready)}\n`);
  // What starting up left behind is given back once, where --expose-gc allows it.
  setTimeout(() => globalThis.gc?.({ type: 'major', flavor: 'last-resort' }), 1_000).unref();
  return undefined;
}

const exitStatus = await main(process.argv.slice(2));
if (exitStatus !== undefined) process.exitCode = exitStatus;
