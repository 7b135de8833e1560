// Other sandboxes, each around the same empty command. Those that are not installed or do not work
// on this machine are skipped and named.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ROOT } from '../test/support/runtime.ts';
import { installPeers } from './peers.ts';
import type { Measure } from './rounds.ts';

export const EMPTY = '/usr/bin/true';

export type User = { uid?: number; gid?: number };

/** Resolves with the time from spawn to exit with closed streams, in ms. */
export function timeSpawn(argv: readonly string[], user: User = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const began = performance.now();
    const child = spawn(argv[0]!, argv.slice(1), { env: { PATH: '/usr/bin:/bin' }, ...user });
    let words = '';
    child.stderr.on('data', (bytes: Buffer) => {
      words += bytes.toString();
    });
    child.stdout.resume();
    child.stdin.end();
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve(performance.now() - began);
      else reject(new Error(`${argv[0]} ended with ${code}: ${words.slice(0, 300)}`));
    });
  });
}

// The closest to level 2 that its options allow: no seccomp table, Landlock or cgroup.
const BWRAP = [
  'bwrap',
  '--unshare-all',
  '--die-with-parent',
  '--new-session',
  '--cap-drop',
  'ALL',
  '--ro-bind',
  '/usr',
  '/usr',
  '--symlink',
  'usr/bin',
  '/bin',
  '--symlink',
  'usr/lib',
  '/lib',
  '--symlink',
  'usr/lib64',
  '/lib64',
  '--dev',
  '/dev',
  '--proc',
  '/proc',
  '--tmpfs',
  '/tmp',
  '--tmpfs',
  '/run',
  '--',
  EMPTY,
];

export const bubblewrap = (user: User): Measure => {
  return () => timeSpawn(BWRAP, user);
};

export type SandboxPeer = { name: string; measure: Measure; stop(): Promise<void> };

const isHere = (program: string): boolean =>
  spawnSync(program, ['--version'], { stdio: 'ignore' }).status === 0;

type SandboxManager = {
  initialize(config: object): Promise<void>;
  wrapWithSandbox(command: string): Promise<string>;
  reset(): Promise<void>;
};

async function sandboxRuntime(): Promise<SandboxPeer> {
  installPeers();
  const folder = join(ROOT, 'build/peers/node_modules/@anthropic-ai/sandbox-runtime');
  const module: { SandboxManager: SandboxManager } = await import(
    pathToFileURL(join(folder, 'dist/index.js')).href
  );
  const manager = module.SandboxManager;
  await manager.initialize({
    network: { allowedDomains: [], deniedDomains: [] },
    filesystem: { denyRead: [], allowWrite: ['/tmp'], denyWrite: [] },
  });
  return {
    name: '@anthropic-ai/sandbox-runtime',
    measure: async () => {
      const began = performance.now();
      await timeSpawn(['/bin/sh', '-c', await manager.wrapWithSandbox(EMPTY)]);
      return performance.now() - began;
    },
    stop: () => manager.reset(),
  };
}

async function crun(): Promise<SandboxPeer> {
  if (!isHere('crun')) throw new Error('not on this machine');
  const bundle = mkdtempSync(join(tmpdir(), 'agentd-bench-crun-'));
  // Also if it does not work here, as nothing else stops it.
  process.on('exit', () => rmSync(bundle, { recursive: true, force: true }));
  mkdirSync(join(bundle, 'state'));
  const types = ['pid', 'network', 'ipc', 'uts', 'mount'];
  const config = {
    ociVersion: '1.0.0',
    process: { user: { uid: 0, gid: 0 }, args: [EMPTY], cwd: '/', noNewPrivileges: true },
    root: { path: '/', readonly: true },
    mounts: [{ destination: '/proc', type: 'proc', source: 'proc' }],
    linux: { namespaces: types.map((type) => ({ type })) },
  };
  writeFileSync(join(bundle, 'config.json'), JSON.stringify(config));
  let number = 0;
  const words = ['crun', '--root', join(bundle, 'state'), '--cgroup-manager=disabled', 'run'];
  return {
    name: 'crun',
    measure: () => timeSpawn([...words, '-b', bundle, `bench-${process.pid}-${number++}`]),
    stop: async () => {},
  };
}

/** Tries each once; returns those that work, and why the others do not. */
export async function otherSandboxes(): Promise<{ peers: SandboxPeer[]; missing: string[] }> {
  const peers: SandboxPeer[] = [];
  const missing: string[] = [];
  const all = { '@anthropic-ai/sandbox-runtime': sandboxRuntime, crun };
  for (const [name, make] of Object.entries(all)) {
    try {
      const peer = await make();
      await peer.measure();
      peers.push(peer);
    } catch (error) {
      missing.push(`${name}: ${(error instanceof Error ? error.message : String(error)).trim()}`);
    }
  }
  for (const name of ['podman', 'runsc']) if (!isHere(name)) missing.push(`${name}: not here`);
  return { peers, missing };
}
