// Test support: a person's repository, and the copy that stands for an agent's layer of it, with
// real git, outside of boxes.
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'node:test';
import { GIT_ENV } from '../../../../test/support/git-env.ts';
import { Fault } from '../../../wire/errors.ts';
import { planCommits } from '../layer-commits.ts';
import type { GitBox, GitCommand, GitPlace } from '../layer-git.ts';
import { EXIT } from './commands.ts';

export let top: string;
/** The person's directory, and what the agent sees. */
export let target: GitPlace;
export let layer: GitPlace;

/** Runs git without a box, with exactly the environment that a box would get. */
const box: GitBox = {
  async exec({ args: [program, ...args], env, cwd }): Promise<GitCommand> {
    const child = spawn(program!, args, { env, cwd, stdio: 'pipe' });
    const closed = once(child, 'close');
    child.stdin.on('error', () => undefined);
    return {
      async *readOutput() {
        const errors: Buffer[] = [];
        child.stderr.on('data', (bytes: Buffer) => errors.push(bytes));
        for await (const bytes of child.stdout) yield { stream: 'stdout', bytes };
        await closed;
        yield { stream: 'stderr', bytes: Buffer.concat(errors) };
      },
      discard: () => undefined,
      stdin: (bytes) =>
        new Promise((resolve, reject) =>
          child.stdin.write(bytes, (error) => (error ? reject(error) : resolve())),
        ),
      stdinEnd: () => child.stdin.end(),
      kill: () => void child.kill('SIGKILL'),
      ended: closed.then(([exitCode]) => ({ ...EXIT, exitCode: exitCode as number | null })),
    };
  },
};

export const git = (place: GitPlace, ...args: string[]): string =>
  execFileSync('git', args, {
    cwd: place.top,
    env: GIT_ENV,
    encoding: 'utf8',
    stdio: ['pipe', 'pipe', 'ignore'],
  }).trim();
export const careless = (place: GitPlace, ...args: string[]) =>
  spawnSync('git', args, { cwd: place.top, env: GIT_ENV, stdio: 'ignore' });
export const write = (place: GitPlace, path: string, content: string): void => {
  mkdirSync(join(place.top, path, '..'), { recursive: true });
  writeFileSync(join(place.top, path), content);
};
export function commit(place: GitPlace, path: string, content: string): string {
  write(place, path, content);
  git(place, 'add', '.');
  git(place, 'commit', '--quiet', '-m', `${path}: ${content}`);
  return git(place, 'rev-parse', 'HEAD');
}
export const refs = (place: GitPlace): string => git(place, 'for-each-ref');
export const plan = (allowsRefs = false) =>
  planCommits(layer, target, { allowsRefs, scratch: mkdtempSync(join(top, 'scratch-')) });
/** As the apply of files does. */
export const copyFiles = (from: GitPlace, to: GitPlace): void => {
  for (const name of readdirSync(from.top).filter((entry) => entry !== '.git'))
    cpSync(join(from.top, name), join(to.top, name), { recursive: true });
};
export const isFault = (code: string) => (error: unknown) =>
  error instanceof Fault && error.code === code;
/** Begins the agent's work: on a copy of the person's directory. */
export function openLayer(): void {
  rmSync(layer.top, { recursive: true, force: true });
  cpSync(target.top, layer.top, { recursive: true, verbatimSymlinks: true });
}

export function setUpRepositories(): void {
  beforeEach(() => {
    top = mkdtempSync(join(tmpdir(), 'commits-'));
    [target, layer] = ['person', 'layer'].map((name) => ({ box, top: join(top, name) })) as [
      GitPlace,
      GitPlace,
    ];
    mkdirSync(target.top);
    git(target, 'init', '--quiet', '--initial-branch=main');
    commit(target, 'a.txt', 'one');
    openLayer();
  });
  afterEach(() => rmSync(top, { recursive: true, force: true }));
}
