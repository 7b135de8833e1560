// Runs test files, each in a process (and process group) of its own, and says at the end what
// passed, failed and was skipped. A file that runs no test, or does not end, fails. Node's runner
// runs the tests.
//   tools/test.ts [--root DIR] [--limit-s N] [FILE|FOLDER...]      FUZZ=long: hours, not minutes
import { spawn } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  globSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join, relative, resolve } from 'node:path';
import { parseArgs, styleText } from 'node:util';
import type { TestLine } from './test/reporter.ts';

const everywhere = '{src,rehearsal,tools,bench,test}/**/*.test.ts';
/** These take longest, so they start first and the others fill the time beside them. */
const slowFirst = [
  'test/fault/',
  'test/escape/',
  'test/fuzz/',
  'test/scenario/',
  'test/clients/',
  'test/wire/',
];

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { root: { type: 'string' }, 'limit-s': { type: 'string' } },
});
const root = resolve(options.root ?? join(import.meta.dirname, '..'));
const isLong = process.env.FUZZ === 'long';
const limitMs = Number(options['limit-s'] ?? (isLong ? 6 * 3600 : 900)) * 1000;
// All that tests make below their temporary directory goes with it, also what is cut off leaves. A
// short name: sockets are in there, and their paths may have 100 bytes.
const scratch = mkdtempSync(join(tmpdir(), 'a'));
// Some tests run programs as another user.
chmodSync(scratch, 0o755);
const running = new Set<number>();
let isStopping = false;

// Tests see neither the runtime of the person who runs them nor a test runner around this one.
const { AGENTD_STATE: _state, NODE_TEST_CONTEXT: _context, ...others } = process.env;
const environment = { ...others, TMPDIR: scratch };

function usage(what: string, next: string): never {
  console.error(`test: ${what}\n      ${next}`);
  process.exit(2);
}

function findFiles(): string[] {
  const wanted = positionals.length === 0 ? [''] : positionals;
  const found = wanted.flatMap((path) => {
    const full = resolve(root, path);
    if (path !== '' && existsSync(full) && statSync(full).isFile()) return [relative(root, full)];
    const pattern = path === '' ? everywhere : join(relative(root, full), '**/*.test.ts');
    return globSync(pattern, { cwd: root });
  });
  const rank = (path: string): number => {
    const place = slowFirst.findIndex((folder) => path.startsWith(folder));
    return place < 0 ? slowFirst.length : place;
  };
  return [...new Set(found)].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

/** False when the group is empty already, which is the usual case. */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-pid, signal);
  } catch {
    return false;
  }
}
const endGroup = (pid: number): boolean => signalGroup(pid, 'SIGKILL');

type FileOutcome = { file: string; lines: TestLine[]; output: string; tookMs: number };

function runFile(file: string, reportPath: string): Promise<FileOutcome> {
  const reporter = join(import.meta.dirname, 'test/reporter.ts');
  const startedAt = performance.now();
  const child = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      `--test-reporter=${reporter}`,
      `--test-reporter-destination=${reportPath}`,
      file,
    ],
    { cwd: root, env: environment, detached: true, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  const pid = child.pid!;
  running.add(pid);
  let output = '';
  let timedOut = false;
  const collect = (chunk: Buffer): void => {
    output += chunk;
  };
  child.stdout.on('data', collect);
  child.stderr.on('data', collect);
  const timer = setTimeout(() => {
    timedOut = true;
    endGroup(pid);
  }, limitMs);
  return new Promise((done) => {
    // What a test left running is ended with it. A process that left the group may hold the pipes
    // open for ever: its last words are not waited for.
    child.on('exit', () => {
      // Cut off, the others of the group have some time more: see stop.
      if (!isStopping) endGroup(pid);
      setTimeout(() => [child.stdout, child.stderr].map((pipe) => pipe.destroy()), 1000).unref();
    });
    child.on('close', (status, signal) => {
      clearTimeout(timer);
      running.delete(pid);
      const lines = readReport(reportPath);
      const why = judgeEnd({ lines, status, signal, timedOut });
      if (why !== undefined) lines.push({ kind: 'failed', name: '(the file as a whole)', why });
      done({ file, lines, output, tookMs: performance.now() - startedAt });
    });
  });
}

function readReport(path: string): TestLine[] {
  if (!existsSync(path)) return [];
  const text = readFileSync(path, 'utf8');
  // A process that was killed may have left half a line.
  const whole = text.slice(0, text.lastIndexOf('\n') + 1);
  return whole
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as TestLine);
}

type End = {
  lines: readonly TestLine[];
  status: number | null;
  signal: string | null;
  timedOut: boolean;
};

/** What is wrong with the file although no test of it says so. */
function judgeEnd({ lines, status, signal, timedOut }: End): string | undefined {
  if (timedOut) return `did not end within ${limitMs / 1000} s; something in it is still open`;
  if (signal !== null) return `was ended by ${signal}`;
  if (status !== 0 && !lines.some(({ kind }) => kind === 'failed')) return `exited with ${status}`;
  if (!lines.some(({ kind }) => kind !== 'note')) return 'ran no test';
  return undefined;
}

const totals = { passed: 0, failed: 0, skipped: 0 };
const skipped: string[] = [];
const failed: string[] = [];

function show({ file, lines, output, tookMs }: FileOutcome): void {
  const results = lines.filter((line) => line.kind !== 'note');
  const bad = results.filter(({ kind }) => kind === 'failed');
  const word = bad.length === 0 ? styleText('green', 'ok  ') : styleText('red', 'FAIL');
  console.log(`${word} ${file}  (${results.length} tests, ${(tookMs / 1000).toFixed(1)} s)`);
  for (const line of lines) if (line.kind === 'note') console.log(`     ${line.text}`);
  for (const { kind, name, why = '' } of results) {
    totals[kind] += 1;
    if (kind === 'skipped') skipped.push(`SKIPPED ${file}: ${name}: ${why}`);
    if (kind !== 'failed') continue;
    failed.push(`FAILED  ${file}: ${name}`);
    console.log(`     ${styleText('red', name)}\n${why.replace(/^/gm, '       ')}`);
  }
  if (bad.length > 0 && output.trim() !== '') {
    console.log(`     what it printed:\n${output.trimEnd().replace(/^/gm, '     | ')}`);
  }
}

const endInOrderMs = 5_000;

/** What the tests have started may end in order first: runtimes then leave no sockets behind. */
async function stop(): Promise<void> {
  const until = performance.now() + (isStopping ? 0 : endInOrderMs);
  isStopping = true;
  const groups = [...running].filter((pid) => signalGroup(pid, 'SIGTERM'));
  while (groups.some((pid) => signalGroup(pid, 0)) && performance.now() < until)
    await new Promise((resolve) => setTimeout(resolve, 50));
  groups.forEach(endGroup);
  removeScratch();
  process.exit(130);
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, () => void stop());

/** Not where a test that was cut off has left something mounted: what is there may be elsewhere. */
function removeScratch(): void {
  try {
    if (readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${scratch}/`))
      throw new Error('something is mounted there');
    rmSync(scratch, { recursive: true, force: true, maxRetries: 3 });
  } catch (error) {
    console.log(`test: ${scratch} could not be removed: ${(error as Error).message}`);
  }
}

const files = findFiles();
if (files.length === 0) {
  removeScratch();
  usage(`no test file in ${positionals.join(' ') || root}`, 'Name a *.test.ts file or a folder.');
}
const queue = files.entries();
const worker = async (): Promise<void> => {
  for (const [i, file] of queue) {
    if (isStopping) return;
    show(await runFile(file, join(scratch, `${i}.jsonl`)));
  }
};
await Promise.all(Array.from({ length: availableParallelism() }, worker));
// Cut off, `stop` has the last word.
if (isStopping) await new Promise(() => undefined);
removeScratch();

for (const line of [...skipped, ...failed]) console.log(line);
console.log(`${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
if (totals.failed > 0) process.exitCode = 1;
else if (totals.passed === 0) {
  console.log('test: nothing was run, so nothing is known');
  process.exitCode = 1;
}
