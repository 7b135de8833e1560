// For tests: a small program that keeps the entry programs' contract, started by `agentctl up` in
// their place.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before } from 'node:test';
import { copyProgram } from './copied-program.ts';
import { type AgentctlResult, agentctl } from './run-agentctl.ts';

const HERE = new URL('./', import.meta.url);

/** Sends ready, an error, or nothing, as the file `behave` in the state directory asks. */
const ENTRY = `
import { existsSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { startFake } from '${new URL('fake-runtime.ts', HERE)}';
import { agent, model, status } from '${new URL('fixtures.ts', HERE)}';
const argv = process.argv.slice(2);
const state = argv[argv.indexOf('--state') + 1];
const fd = Number(argv[argv.indexOf('--ready-fd') + 1]);
const send = (line) => writeSync(fd, JSON.stringify(line) + '\\n');
const behave = existsSync(state + '/behave') ? readFileSync(state + '/behave', 'utf8') : '';
writeFileSync(state + '/argv', JSON.stringify(argv));
if (behave === 'refuse') {
  send({ error: { code: 'bad_config', message: 'agentd.yaml:3: unknown key', hint: 'Remove it.' } });
  process.exit(78);
}
if (behave === 'slow') {
  writeFileSync(state + '/pid', String(process.pid));
  setTimeout(() => process.exit(1), 60_000);
  await new Promise(() => undefined);
}
if (behave === 'die') {
  console.error(JSON.stringify({ level: 'error', message: 'the port is taken' }));
  process.exit(1);
}
const fake = await startFake({
  agentd: {
    listAgents: async () => ({ agents: [agent('planner')], problems: [] }),
    status: async () => status(),
  },
  modeld: { listModels: async () => ({ models: [model('coder-large')], providers: [], aliases: [] }) },
}, state);
process.on('SIGTERM', async () => {
  rmSync(state + '/runtime.json');
  rmSync(fake.info.runtime_dir, { recursive: true });
  writeFileSync(state + '/stopped', '');
  setTimeout(() => process.exit(0), 50);
});
send({ ready: true });
`;

export type StubRuntime = {
  /** The copy of agentctl that starts it. */
  main(): string;
  ctl(state: string, ...args: string[]): Promise<AgentctlResult>;
  withState(use: (state: string) => Promise<void>): Promise<void>;
};

/** Call it at the top of a test file. */
export function stubRuntime(): StubRuntime {
  let program: ReturnType<typeof copyProgram>;
  before(() => {
    const names = ['embedded', 'split', 'as-root'];
    program = copyProgram(Object.fromEntries(names.map((name) => [`entry/${name}.ts`, ENTRY])));
  });
  after(() => program.remove());
  const ctl: StubRuntime['ctl'] = (state, ...args) => agentctl(args, { state, main: program.main });
  return {
    main: () => program.main,
    ctl,
    async withState(use) {
      const state = mkdtempSync(join(tmpdir(), 'actl-up-'));
      try {
        await use(state);
      } finally {
        await ctl(state, 'down');
        rmSync(state, { recursive: true, force: true });
      }
    },
  };
}
