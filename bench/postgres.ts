// Starts a PostgreSQL server with its default settings, for a peer that keeps its record there: on
// a Unix socket in a directory of its own, as an unprivileged user.
import { spawn, spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { end, keep } from './children.ts';

export type Postgres = { name: string; url: string; stop(): Promise<void> };

/** Debian has a directory for each version. */
const DIRECTORY = '/usr/lib/postgresql';
const READY_MS_MAX = 20_000;
/** It refuses to run as root. */
const NOBODY = { uid: 65_534, gid: 65_534 };

/** Returns the directory of the newest version; undefined if there is none. */
export function findPostgres(): string | undefined {
  if (!existsSync(DIRECTORY)) return undefined;
  const versions = readdirSync(DIRECTORY).toSorted((a, b) => Number(b) - Number(a));
  return versions
    .map((version) => join(DIRECTORY, version, 'bin'))
    .find((bin) => existsSync(join(bin, 'initdb')) && existsSync(join(bin, 'postgres')));
}

export async function startPostgres(bin: string): Promise<Postgres> {
  const user = process.getuid?.() === 0 ? NOBODY : {};
  const dir = mkdtempSync(join(tmpdir(), 'postgres-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  if (user === NOBODY) chownSync(dir, NOBODY.uid, NOBODY.gid);
  const options = { cwd: dir, env: { PATH: bin, LC_ALL: 'C' }, ...user };
  const call = (program: string, ...argv: string[]) =>
    spawnSync(join(bin, program), argv, { ...options, encoding: 'utf8' });
  const data = join(dir, 'data');
  const made = call('initdb', '-D', data, '-U', 'bench', '--auth=trust');
  if (made.status !== 0) throw new Error(`initdb failed: ${made.stderr.slice(-300)}`);
  const server = keep(
    spawn(join(bin, 'postgres'), ['-D', data, '-k', dir, '-c', 'listen_addresses='], {
      ...options,
      stdio: 'ignore',
    }),
  );
  const isReady = () => call('pg_isready', '-h', dir, '-U', 'bench').status === 0;
  const until = Date.now() + READY_MS_MAX;
  while (!isReady()) {
    if (Date.now() > until || server.exitCode !== null) throw new Error('PostgreSQL did not start');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return {
    name: `PostgreSQL ${/[\d.]+/.exec(call('postgres', '--version').stdout)?.[0]}`,
    url: `postgresql://bench@localhost/bench?host=${encodeURIComponent(dir)}`,
    async stop() {
      await end(server);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
