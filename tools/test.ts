// Runs test files in parallel, each in its own process, and prints what passed, failed and was
// skipped. A file that failed is run once more, alone, at the end; if it passes then, it is flaky.
//   tools/test.ts [--root DIR] [--limit-s N] [FILE|FOLDER...]      FUZZ=long: hours, not minutes
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
import { parseArgs } from 'node:util';
import { canAllEnter, runInSecondPlace } from './test/enterable.ts';
import { hasFailed, makeFileRunner } from './test/run-file.ts';
import { type FileResult, printOutcome, printRerun, printSummary } from './test/summary.ts';

const everywhere = '{src,rehearsal,tools,bench,test}/**/*.test.ts';
/** These take longest, so they start first, and the others run in parallel. */
const slowFirst = [
  'test/fault/',
  'test/escape/',
  'test/fuzz/',
  'test/scenario/',
  'test/clients/',
  'test/wire/',
];
/** With more failed files than this there is a common cause, and reruns would only take time. */
const RERUNS_MAX = 10;

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { root: { type: 'string' }, 'limit-s': { type: 'string' } },
});
const root = resolve(options.root ?? join(import.meta.dirname, '..'));
if (process.getuid?.() === 0 && !canAllEnter(root)) await runElsewhere();
const isLong = process.env.FUZZ === 'long';
const limitMs = Number(options['limit-s'] ?? (isLong ? 6 * 3600 : 900)) * 1000;
// Tests make everything below their temporary directory, so removing it also removes what an
// interrupted test leaves. The name is short: sockets are in there, and a path has 100 bytes.
const scratch = mkdtempSync(join(tmpdir(), 'a'));
// Some tests run programs as another user.
chmodSync(scratch, 0o755);

// Tests see neither the runtime of the person who runs them nor a test runner around this one.
const { AGENTD_STATE: _state, NODE_TEST_CONTEXT: _context, ...others } = process.env;
const runner = makeFileRunner({ root, env: { ...others, TMPDIR: scratch }, limitMs });

/** Ends this process with the tests, unless this host refuses mounts. */
async function runElsewhere(): Promise<void> {
  const limit = options['limit-s'] === undefined ? [] : ['--limit-s', options['limit-s']];
  const files = positionals.map((path) => relative(root, resolve(root, path)));
  const program = [process.execPath, import.meta.filename, ...limit, ...files, '--root'];
  const status = await runInSecondPlace(root, program);
  if (status !== undefined) process.exit(status);
  console.log(`test: only root can enter ${root}, so tests as another user fail there`);
}

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
    const index = slowFirst.findIndex((folder) => path.startsWith(folder));
    return index < 0 ? slowFirst.length : index;
  };
  return [...new Set(found)].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}

/** Keeps the directory if a test left something mounted there: that may be part of the host. */
function removeScratch(): void {
  try {
    if (readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${scratch}/`))
      throw new Error('something is mounted there');
    rmSync(scratch, { recursive: true, force: true, maxRetries: 3 });
  } catch (error) {
    console.log(`test: ${scratch} could not be removed: ${(error as Error).message}`);
  }
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.on(signal, async () => {
    await runner.stop();
    removeScratch();
    process.exit(130);
  });

async function runAll(files: readonly string[]): Promise<FileResult[]> {
  const results: FileResult[] = [];
  const queue = files.entries();
  const worker = async (): Promise<void> => {
    for (const [i, file] of queue) {
      if (runner.isStopping) return;
      const first = await runner.run(file, join(scratch, `${i}.jsonl`));
      results.push({ first });
      printOutcome(first);
    }
  };
  await Promise.all(Array.from({ length: availableParallelism() }, worker));
  return results;
}

/** A long fuzz run finds faults by chance, so there a second run that passes would hide one. */
async function rerunFailed(results: readonly FileResult[]): Promise<void> {
  const failed = results.filter(({ first }) => hasFailed(first));
  if (failed.length === 0 || isLong || runner.isStopping) return;
  if (failed.length > RERUNS_MAX) {
    console.log(`test: ${failed.length} files failed: too many to run them again one by one`);
    return;
  }
  console.log(`test: running again, one by one, what failed: ${failed.length}`);
  for (const [i, result] of failed.entries()) {
    if (runner.isStopping) return;
    result.second = await runner.run(result.first.file, join(scratch, `again-${i}.jsonl`));
    printRerun(result.second);
  }
}

const files = findFiles();
if (files.length === 0) {
  removeScratch();
  usage(`no test file in ${positionals.join(' ') || root}`, 'Name a *.test.ts file or a folder.');
}
const results = await runAll(files);
await rerunFailed(results);
// The signal handler exits when everything has stopped.
if (runner.isStopping) await new Promise(() => undefined);
removeScratch();
if (!printSummary(results)) process.exitCode = 1;
