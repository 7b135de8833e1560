// The peers' programs: installed from their own lock file into build/, never into the project, and
// without running their install scripts.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { delimiter, dirname, join } from 'node:path';
import { ROOT } from '../test/support/runtime.ts';
import { end, keep } from './children.ts';

const SOURCE = join(import.meta.dirname, 'peers');
/** The directory that they are installed into. */
export const PEERS = join(ROOT, 'build', 'peers');
const NPM_CI =
  'ci --ignore-scripts --no-global --no-audit --no-fund --no-update-notifier --loglevel=error';
const READY_MS_MAX = 20_000;

const isSame = (name: string, installed: string): boolean =>
  existsSync(installed) &&
  readFileSync(join(SOURCE, name), 'utf8') === readFileSync(installed, 'utf8');

/** Installs the packages of the lock file, unless they are installed. */
export function installPeers(): void {
  const lock = 'package-lock.json';
  const done = join(PEERS, 'node_modules', '.package-lock.json');
  if (existsSync(done) && isSame(lock, join(PEERS, lock))) return;
  console.log('bench: installing the peers of bench/peers/package-lock.json into build/peers');
  mkdirSync(PEERS, { recursive: true });
  for (const name of ['package.json', '.npmrc', lock])
    copyFileSync(join(SOURCE, name), join(PEERS, name));
  const path = [dirname(process.execPath), process.env.PATH].join(delimiter);
  const options = { cwd: PEERS, stdio: 'inherit', env: { ...process.env, PATH: path } } as const;
  const { status, error } = spawnSync('npm', NPM_CI.split(' '), options);
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`npm ci in ${PEERS} failed with status ${status}`);
}

export type BenchPeer = { name: string; port: number; pid: number; stop(): Promise<void> };

/** Starts the gateway as its own start command does, without its web page, on loopback only. */
export async function startPortkey(): Promise<BenchPeer> {
  installPeers();
  const port = await freePort();
  const folder = join(PEERS, 'node_modules', '@portkey-ai', 'gateway');
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    version: string;
  };
  const loopbackOnly = join(import.meta.dirname, 'processes', 'loopback-only.ts');
  const program = join(folder, 'build', 'start-server.js');
  const argv = ['--import', loopbackOnly, program, '--headless', `--port=${port}`];
  const child = keep(
    spawn(process.execPath, argv, {
      cwd: PEERS,
      env: { NODE_ENV: 'production' },
      stdio: ['ignore', 'ignore', 'inherit'],
    }),
  );
  await listening(port, child);
  const name = `@portkey-ai/gateway ${version}`;
  return { name, port, pid: child.pid!, stop: () => end(child) };
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = net.createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as net.AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

export async function listening(port: number, child: ChildProcess): Promise<void> {
  const until = Date.now() + READY_MS_MAX;
  while (Date.now() < until && child.exitCode === null) {
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = net.connect(port, '127.0.0.1');
      socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
      socket.once('connect', () => socket.destroy());
    });
    if (isOpen) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`nothing listens at port ${port}`);
}
