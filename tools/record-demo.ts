// Runs the demo in a terminal and draws its output as docs/demo.svg, the picture in the README.
// Where the demo cannot run, it says why and keeps the picture that is there. Needs a fresh build.
//   tools/record-demo.ts [--out FILE]
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { STEPS } from '../demo/steps.ts';
import { COLUMNS, drawDemo, type Excerpts, selectRows } from './docs/demo-picture.ts';
import { readTerminal } from './docs/terminal.ts';

const EXCERPTS: Excerpts<keyof typeof STEPS> = {
  slow: [/./],
  team: [/^\$ agentctl up/, /^model /],
  task: [/^\$ agentctl task create/],
  approval: [
    /^\$ agentctl approvals/,
    /^ +class/,
    /^ +reason/,
    /^ +marks/,
    /│ [-+] {2}/,
    /\[y\/n\]/,
  ],
  resumed: [/^(?:[├└]─ )?✓ /, /ms now/],
  timeline: [/model calls/],
  blocked: [/denied by/, /kernel, (?!.* home )/],
  again: [/memory edit/, /^ +planner asked (?!.*again)/, /again, .* before/],
  proof: [/^\$ agentctl audit verify/, /: \d+ events/],
};

const root = join(import.meta.dirname, '..');
const TIMEOUT_MS = 180_000;
const { values: options } = parseArgs({ options: { out: { type: 'string' } } });
const out = options.out ?? join(root, 'docs/demo.svg');

// Not in /tmp, where a box has its own files.
const base = mkdtempSync('/var/tmp/agentd-demo-');
const env = { ...process.env, AGENTD_STATE: join(base, 'state'), TERM: 'xterm-256color' };
process.on('exit', () => rmSync(base, { recursive: true, force: true }));

function skip(why: string): never {
  // A demo that was ended by the timeout leaves its runtime.
  spawnSync(process.execPath, [join(root, 'build/agentctl.mjs'), 'down'], { env, stdio: 'ignore' });
  console.log(`record-demo: skipped, ${out} stays as it is: ${why}`);
  process.exit(0);
}

/** Resolves to everything the demo wrote to its terminal. script(1) provides the terminal. */
function runDemo(): Promise<string> {
  const command = `stty cols ${COLUMNS} rows 50; exec '${process.execPath}' demo/main.ts`;
  const child = spawn('script', ['-qefc', command, '/dev/null'], {
    cwd: root,
    env: { ...env, DEMO_YES: '' },
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: TIMEOUT_MS,
  });
  let output = '';
  let answered = 0;
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk;
    for (const asked = output.split('[y/n]').length - 1; answered < asked; answered++)
      child.stdin.write('y\n');
  });
  return new Promise((resolve) => {
    child.on('error', (error) => skip(`script(1) did not start: ${error.message}`));
    child.on('close', (status) =>
      status === 0
        ? resolve(output)
        : skip(`the demo ended with ${status ?? 'a timeout'}:\n${output.slice(-2_000)}`),
    );
  });
}

const rows = readTerminal(await runDemo());
writeFileSync(out, drawDemo(Object.values(STEPS), selectRows(rows, STEPS, EXCERPTS)));
console.log(`wrote ${out}`);
