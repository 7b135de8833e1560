// Follows docs/getting-started.md literally, in a copy of the tree with a fresh home directory. Of
// its fenced blocks, `sh` is run, `yaml` and `cedar` are saved as their first line says, and `text`
// must match the output of the last `sh`: `…` matches anything, and a line with nothing but `…` any
// number of lines. In a command, `task_…` is the last such ID that was printed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  constants,
  copyFileSync,
  cpSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { it } from 'node:test';
import { listFiles } from '../../tools/source.ts';
import { freshDir, ROOT } from '../support/runtime.ts';

const NOBODY = 65_534;
const WAITS_FOR_APPROVAL = 4;
const isRoot = process.getuid?.() === 0;

type Block = { language: string; text: string };
type Ran = { status: number | null; output: string };
type Shell = (script: string, input?: string) => Ran;

const readBlocks = (page: string): Block[] =>
  [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = '', text = '']) => ({
    language,
    text,
  }));

function toPattern(expected: string): RegExp {
  const lines = expected.trimEnd().split('\n');
  const source = lines.map((line) =>
    line === '…' ? '(?:.*\n)*?' : `${line.split('…').map(escapeRegExp).join('.*')} *\n`,
  );
  return new RegExp(`^${source.join('')}$`);
}
const escapeRegExp = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** A clone with packages and build in place, so that nothing has to be fetched. */
function makeClone(dir: string): void {
  for (const path of listFiles(ROOT)) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    cpSync(join(ROOT, path), join(dir, path), { preserveTimestamps: true });
  }
  const [built, build] = [join(ROOT, 'build'), join(dir, 'build')];
  const notNeeded = ['node', 'peers', '.cache'].map((name) => join(built, name));
  const filter = (path: string): boolean => !notNeeded.includes(path);
  cpSync(built, build, { recursive: true, preserveTimestamps: true, filter });
  // A copy, since another user may not be able to reach the original.
  copyFileSync(process.execPath, join(build, 'node'), constants.COPYFILE_FICLONE);
  chmodSync(join(build, 'node'), 0o755);
  symlinkSync(join(ROOT, 'node_modules'), join(dir, 'node_modules'));
  const now = new Date();
  utimesSync(join(build, '.setup'), now, now);
}

function makeShell(base: string, uid: number | undefined): Shell {
  const as =
    uid === undefined
      ? []
      : ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--'];
  const env = {
    PATH: process.env.PATH,
    HOME: join(base, 'home'),
    XDG_RUNTIME_DIR: join(base, 'r'),
    AGENTD_KEEPER_DIR: join(base, 'keeper'),
  };
  return (script, input = '') => {
    const [program, ...args] = [...as, 'bash', '-c', `exec 2>&1\n${script}`];
    const options = { cwd: join(base, 'agentd'), env, input, encoding: 'utf8' } as const;
    const { status, stdout } = spawnSync(program!, args, { ...options, timeout: 170_000 });
    return { status, output: stdout };
  };
}

/** Returns what all commands printed. */
function follow(blocks: readonly Block[], shell: Shell): string {
  let [exports, printed, last] = ['', '', ''];
  const fillIds = (script: string): string =>
    script.replace(/\b(approval|task)_…/g, (_, kind: string) => {
      const id = [...printed.matchAll(new RegExp(`${kind}_[0-9a-z]{26}`, 'g'))].at(-1)?.[0];
      assert.ok(id, `no ${kind}_… was printed before: ${script}`);
      return id;
    });
  for (const { language, text } of blocks) {
    if (language === 'sh') {
      const ran = shell(`${exports}${fillIds(text)}`);
      assert.ok([0, WAITS_FOR_APPROVAL].includes(ran.status ?? -1), `${text}\n${ran.output}`);
      exports += text.match(/^export .*\n/gm)?.join('') ?? '';
      last = ran.output;
      printed += last;
    } else if (language === 'text') {
      assert.match(last, toPattern(text));
    } else {
      const [, path] = /^(?:#|\/\/) save as (\S+)\n/.exec(text) ?? [];
      assert.ok(path, `a ${language} block does not say where it belongs:\n${text}`);
      const saved = shell(`cat > ${path}`, text);
      assert.equal(saved.status, 0, saved.output);
    }
  }
  return printed;
}

for (const [who, uid] of [
  ['this user', undefined],
  ...(isRoot ? ([['an ordinary user', NOBODY]] as const) : []),
] as const)
  it(`the page works as ${who}`, { timeout: 300_000 }, (t) => {
    const base = freshDir();
    chmodSync(base, 0o755);
    makeClone(join(base, 'agentd'));
    for (const dir of ['home', 'r']) mkdirSync(join(base, dir), { mode: 0o700 });
    if (uid !== undefined) spawnSync('chown', ['-R', `${uid}:${uid}`, base]);
    const shell = makeShell(base, uid);
    t.after(() => {
      shell('bin/agentctl down --state ~/agentd-first');
      rmSync(base, { recursive: true, force: true, maxRetries: 3 });
    });
    const blocks = readBlocks(readFileSync(join(ROOT, 'docs', 'getting-started.md'), 'utf8'));
    assert.ok(blocks.length > 20, `${blocks.length} blocks`);
    const printed = follow(blocks, shell);
    const [, demoDir] = /To remove them: rm -rf (\/var\/tmp\/agentd-demo-\w+)/.exec(printed) ?? [];
    assert.ok(demoDir, 'the demo ran');
    rmSync(demoDir, { recursive: true, force: true });
  });

it('a page that is wrong is noticed', () => {
  const shell: Shell = (script) => ({
    status: script.includes('bad') ? 1 : 0,
    output: 'a 1\nb\nc\n',
  });
  const run = (text: string) => ({ language: 'sh', text });
  const shows = (text: string) => ({ language: 'text', text });
  for (const right of ['a 1\nb\nc\n', 'a …\nb\nc\n', '…\nc\n', 'a 1\n…\n', 'a 1\n…\nc\n'])
    follow([run('good'), shows(right)], shell);
  for (const wrong of ['a 2\nb\nc\n', 'a 1\nb\n', 'b\nc\n', '…\nd\n', 'c\n…\n'])
    assert.throws(() => follow([run('good'), shows(wrong)], shell), /match/, wrong);
  assert.throws(() => follow([run('bad')], shell), /bad/);
  assert.throws(() => follow([run('use task_…')], shell), /no task_… was printed/);
  assert.throws(() => follow([{ language: 'yaml', text: 'a: 1\n' }], shell), /where it belongs/);
});
