// The programs of others that the tests of this folder run in boxes: from a lock file of their own,
// into the cache, without their install scripts. What those would do is done here.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';

const SOURCE = join(import.meta.dirname, 'programs');
const LOCK = 'package-lock.json';
const NPM_CI =
  'ci --ignore-scripts --no-global --no-audit --no-fund --no-update-notifier --loglevel=error';
/** The native programs, and where their own scripts would put them. */
const LINKED: Readonly<Record<string, string>> = {
  [`@anthropic-ai/claude-code-linux-${process.arch}/claude`]:
    '@anthropic-ai/claude-code/bin/claude.exe',
  [`opencode-linux-${process.arch}/bin/opencode`]: 'opencode-ai/bin/opencode.exe',
};

const lockText = readFileSync(join(SOURCE, LOCK), 'utf8');
const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'agentd');
const hash = createHash('sha256').update(lockText).digest('hex').slice(0, 12);
const dir = join(cache, `harnesses-${hash}`);
const done = join(dir, 'done');

/** The directory with their commands, for a PATH. */
export const HARNESS_BIN = join(dir, 'node_modules', '.bin');

/** Why the tests are skipped; false when the programs are there. */
export const harnessesMissing: false | string =
  !existsSync(done) && 'the programs are not in the cache: make test-harnesses fetches them';

export function lockedVersion(name: string): string | undefined {
  const { packages } = JSON.parse(lockText) as { packages: Record<string, { version?: string }> };
  return packages[`node_modules/${name}`]?.version;
}

export function fetchHarnesses(): void {
  if (existsSync(done)) return;
  console.log(`test-harnesses: installing the programs of test/harnesses/programs into ${dir}`);
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true });
  for (const name of ['package.json', '.npmrc', LOCK])
    copyFileSync(join(SOURCE, name), join(dir, name));
  const path = [dirname(process.execPath), process.env.PATH].join(delimiter);
  const options = { cwd: dir, stdio: 'inherit', env: { ...process.env, PATH: path } } as const;
  const { status, error } = spawnSync('npm', NPM_CI.split(' '), options);
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`npm ci in ${dir} failed with status ${status}`);
  for (const [native, at] of Object.entries(LINKED)) {
    const target = join(dir, 'node_modules', at);
    if (!existsSync(join(dir, 'node_modules', native))) continue;
    rmSync(target, { force: true });
    linkSync(join(dir, 'node_modules', native), target);
  }
  writeFileSync(done, '');
}
