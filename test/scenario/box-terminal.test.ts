// box run on a real terminal, driven by tmux as a person would: an editor, a shell with job
// control, sizes, colours, keys that send signals, and the exit status.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { MAIN } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const missing = ['tmux', 'vim'].filter((name) => spawnSync('which', [name]).status !== 0);
const skip = missing.length > 0 && `needs ${missing.join(' and ')}`;

describe('box run on a terminal', { timeout: 120_000, skip }, () => {
  const dir = freshDir();
  const at = join(dir, 'work');
  const server = join(dir, 'tmux');
  let runtime: TestRuntime;
  before(async () => {
    mkdirSync(at);
    writeFileSync(join(at, 'notes.txt'), 'one line\n');
    runtime = await startRuntime();
    const env = { ...process.env, ...runtime.env, AGENTD_STATE: runtime.stateDir };
    const shell = ['-x', '100', '-y', '30', 'env', 'PS1=outside> ', 'sh'];
    execFileSync(
      'tmux',
      ['-S', server, '-f', '/dev/null', 'new-session', '-d', '-s', 'first', ...shell],
      {
        cwd: at,
        env: { ...env, HOME: dir, COLORTERM: 'truecolor' },
      },
    );
  });
  after(async () => {
    tmux('kill-server');
    await runtime?.remove();
  });

  let pane = 'first:';
  const tmux = (...args: string[]): string =>
    spawnSync('tmux', ['-S', server, ...args], { encoding: 'utf8' }).stdout;
  const type = (...keys: string[]): string => tmux('send-keys', '-t', pane, ...keys);
  const screen = (): string => tmux('capture-pane', '-t', pane, '-p', '-S', '-200');
  const sees = (pattern: RegExp): Promise<string> =>
    eventually(`${pattern} on the screen`, async () => {
      const text = screen();
      return pattern.test(text) ? text : undefined;
    }).catch((error: unknown) => assert.fail(`${(error as Error).message}:\n${screen()}`));
  const box = `'${process.execPath}' '${MAIN}' box run`;
  const clear = async (): Promise<void> => {
    type('clear', 'Enter');
    await eventually('an empty screen', async () =>
      screen().trim() === 'outside>' ? true : undefined,
    );
    tmux('clear-history', '-t', pane);
  };

  it('a shell has the size, colours and language of the terminal, and follows its size', async () => {
    type(`LC_ALL=C.UTF-8 ${box} -- bash --norc`, 'Enter');
    await sees(/bash-[\d.]+\$/);
    type('tput cols; tput lines; echo $TERM-$COLORTERM-$LC_ALL; tty', 'Enter');
    const text = await sees(/\/dev\/pts\/\d/);
    assert.match(text, /\n100\n30\n(screen|tmux)\S*-truecolor-C\.UTF-8\n/);
    tmux('resize-window', '-t', pane, '-x', '71', '-y', '19');
    type('clear; tput cols; tput lines', 'Enter');
    await sees(/\b71\n19\n/);
    tmux('resize-window', '-t', pane, '-x', '100', '-y', '30');
  });

  it('Ctrl-C and Ctrl-Z go to what runs in it, and its exit status comes out', async () => {
    type("sh -c 'echo slee''ping; sleep 600'", 'Enter');
    await sees(/^sleeping/m);
    type('C-c');
    type('echo status $?', 'Enter');
    await sees(/status 130/);
    // A key that sends a signal discards what was typed and is not read yet.
    type("sh -c 'echo rea''dy; cat'", 'Enter');
    await sees(/^ready/m);
    type('C-z');
    await sees(/Stopped/);
    type('fg', 'Enter');
    await sees(/fg\nsh -c/);
    type('echoed', 'Enter');
    await sees(/echoed\nechoed/);
    type('C-d');
    type('exit 7', 'Enter');
    await sees(/outside>/);
    type('echo outside says $?', 'Enter');
    await sees(/outside says 7/);
    await clear();
  });

  it('Ctrl-Z without a shell inside stops both, and fg continues both', async () => {
    type(`${box} -- cat`, 'Enter');
    type('before', 'Enter');
    await sees(/before\nbefore/);
    type('C-z');
    await sees(/Stopped|Suspended/);
    type('fg', 'Enter');
    type('behind', 'Enter');
    await sees(/behind\nbehind/);
    type('C-d');
    await sees(/outside> *$/m);
    type('stty -a | grep -o " -*icanon"', 'Enter');
    await sees(/\n icanon/);
    await clear();
  });

  it('what it writes arrives as it is, also a line feed alone', async () => {
    type(`${box} -- sh -c "stty -opost; printf 'upper\\nlower'; stty opost; echo"`, 'Enter');
    await sees(/\nupper\n {5}lower\n/);
    await clear();
  });

  it('exec is on a terminal as well: its size, its keys, its exit status', async () => {
    type(`${box} --name kept -- sh -c 'echo rea''dy; read line'`, 'Enter');
    await sees(/^ready/m);
    const other = ['-x', '93', '-y', '27', 'env', 'PS1=outside> ', 'sh'];
    tmux('new-session', '-d', '-s', 'other', ...other);
    const first = pane;
    pane = 'other:';
    type(`'${process.execPath}' '${MAIN}' exec kept -- bash --norc`, 'Enter');
    await sees(/bash-[\d.]+\$/);
    type('tput cols; tput lines; tty', 'Enter');
    assert.match(await sees(/\/dev\/pts\/\d/), /\n93\n27\n/);
    tmux('resize-window', '-t', pane, '-x', '64', '-y', '22');
    type('clear; tput cols; tput lines', 'Enter');
    await sees(/\b64\n22\n/);
    type("sh -c 'echo slee''ping; sleep 600'", 'Enter');
    await sees(/^sleeping/m);
    type('C-c');
    type('echo status $?', 'Enter');
    await sees(/status 130/);
    type('exit 9', 'Enter');
    // Keys typed before that go to the box.
    await sees(/^outside> *$/m);
    type('echo outside says $?', 'Enter');
    await sees(/outside says 9/);
    // One that is there when the program of the box ends, ends with it.
    type('stty -a | grep -o " -*icanon"', 'Enter');
    await sees(/\n icanon/);
    type(`'${process.execPath}' '${MAIN}' exec kept -- sh -c 'echo wai''ting; sleep 600'`, 'Enter');
    await sees(/^waiting/m);
    const second = pane;
    pane = first;
    type('', 'Enter');
    await sees(/outside> *$/m);
    pane = second;
    await sees(/its box was closed/);
    type('echo outside says $?', 'Enter');
    await sees(/outside says 137/);
    type('exit', 'Enter');
    pane = first;
    await clear();
  });

  it('vim edits a file of the directory', async () => {
    type(`${box} --here -- vim -u NONE notes.txt`, 'Enter');
    await sees(/one line/);
    type('A', ' changed', 'Escape', ':wq', 'Enter');
    await eventually('the saved file', async () =>
      readFileSync(join(at, 'notes.txt'), 'utf8') === 'one line changed\n' ? true : undefined,
    );
    await sees(/outside> *$/m);
    assert.ok(!existsSync(join(at, '.notes.txt.swp')));
  });

  it('pipes stay pipes', async () => {
    type(`echo piped | ${box} -- sh -c 'cat; test -t 1 && echo tty || echo no tty'`, 'Enter');
    await sees(/piped\nno tty/);
  });
});
