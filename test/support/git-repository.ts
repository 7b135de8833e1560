// For tests: a workspace that is a git repository with one commit, for each test of a file.
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach } from 'node:test';
import { gitTools } from '../../src/daemons/toold/tools/git.ts';
import { GIT_ENV } from './git-env.ts';
import { openTestBox, type TestBox } from './test-box.ts';

/** The box of the current test. */
export let world: TestBox;

export const at = (name: string) => join(world.workspace, name);
export const tool = (name: string) =>
  gitTools(world.workspace).find((candidate) => candidate.name === name);
export const ask = (name: string, input: object = {}) => world.result(tool(name), input);

/** Runs git as a person would. */
export const gitIn = (dir: string, ...args: string[]) =>
  execFileSync('git', args, {
    cwd: dir,
    env: GIT_ENV,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 10_000,
  });
export const plain = (...args: string[]) => gitIn(world.workspace, ...args);
export const config = (key: string, value: string) => plain('config', key, value);

export function makeRepository(dir: string): void {
  mkdirSync(dir, { recursive: true });
  gitIn(dir, 'init', '--quiet', '--initial-branch=main');
  writeFileSync(join(dir, 'a.txt'), 'one\n');
  gitIn(dir, 'add', '.');
  gitIn(dir, 'commit', '--quiet', '-m', 'first\n\nwith a body');
}

export function repositoryForEach(): void {
  beforeEach(async () => {
    world = await openTestBox({ agent: 'coder' });
    makeRepository(world.workspace);
  });
  afterEach(() => world.close());
}
