// Runs all checks in parallel and prints one line for each, with its output only if it failed or
// warns. Each check is documented in its own tool.
//   tools/check.ts [NAME...]
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { styleText } from 'node:util';

const root = join(import.meta.dirname, '..');
const script = (path: string, ...args: string[]): string[] => [join(root, path), ...args];

// Incremental: a second run takes half a second instead of several.
const tsc = script(
  'node_modules/typescript/bin/tsc',
  '-p',
  '.',
  '--pretty',
  'false',
  '--incremental',
  '--tsBuildInfoFile',
  'build/.tsbuildinfo',
);

/** Each runs under this same Node, with no shell and no PATH in between. */
const CHECKS: Readonly<Record<string, string[]>> = {
  types: tsc,
  lint: script('node_modules/@biomejs/biome/bin/biome', 'check', '--diagnostic-level=warn', '.'),
  layers: script('tools/check-layers.ts'),
  tidy: script('tools/tidy.ts'),
  'dead code': script('node_modules/knip/bin/knip.js', '--no-progress', '--no-config-hints'),
  lock: script('tools/trim-lock.ts', '--check'),
  'docs = code': script('tools/docs.ts', '--check'),
};

type Outcome = { name: string; passed: boolean; output: string; tookMs: number };

function run(name: string, args: readonly string[]): Promise<Outcome> {
  const startedAt = performance.now();
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    const collect = (chunk: Buffer): void => {
      output += chunk;
    };
    child.stdout.on('data', collect);
    child.stderr.on('data', collect);
    const end = (passed: boolean): void =>
      resolve({ name, passed, output: output.trim(), tookMs: performance.now() - startedAt });
    child.on('error', (error) => {
      output += error.message;
      end(false);
    });
    child.on('close', (status) => end(status === 0));
  });
}

function show({ name, passed, output, tookMs }: Outcome): void {
  const word = passed ? styleText('green', 'ok  ') : styleText('red', 'FAIL');
  console.log(`${word} ${name.padEnd(12)} ${(tookMs / 1000).toFixed(1)} s`);
  const worthReading = !passed || output.includes('warning:');
  if (worthReading && output !== '') console.log(output.replace(/^/gm, '     '));
}

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !(name in CHECKS));
if (unknown.length > 0) {
  console.error(`check: no such check: ${unknown.join(', ')}`);
  console.error(`       There are: ${Object.keys(CHECKS).join(', ')}`);
  process.exit(2);
}
const chosen = Object.entries(CHECKS).filter(
  ([name]) => wanted.length === 0 || wanted.includes(name),
);
const failed: string[] = [];
await Promise.all(
  chosen.map(async ([name, args]) => {
    const outcome = await run(name, args);
    show(outcome);
    if (!outcome.passed) failed.push(name);
  }),
);
console.log(
  failed.length === 0
    ? `check: all ${chosen.length} passed`
    : `check: ${failed.length} of ${chosen.length} failed: ${failed.join(', ')}`,
);
process.exitCode = failed.length === 0 ? 0 : 1;
