// shell.exec and tests.run: commands in the box, which limits what they can reach.
import * as z from 'zod';
import { fault } from '../../../wire/errors.ts';
import {
  type Box,
  boxPath,
  ExecOutput,
  execOnce,
  reads,
  toExecOutput,
  WORKSPACE,
  writes,
} from './box.ts';
import { type Tool, type ToolContext, tool } from './tool.ts';

const OUTPUT_BYTES_MAX = 4 * 1024 * 1024;
const SHELL_TIMEOUT_S = { usual: 120, max: 1_800 } as const;
const TESTS_TIMEOUT_S = { usual: 600, max: 3_600 } as const;

/** The environment of commands; the box adds its proxy settings, where it has egress. */
const buildEnv = ({ roots }: Box) => ({
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: roots.home,
  TMPDIR: '/tmp',
  LANG: 'C.UTF-8',
});

type ShellCommand = {
  tool: string;
  argv: readonly string[];
  cwd: string;
  timeoutS: number;
  isRepeatable: boolean;
};

/** `isRepeatable`: it may run twice when the end of the first run is unknown. */
async function runCommand(
  context: ToolContext,
  { tool: liveAs, argv, cwd, timeoutS, isRepeatable }: ShellCommand,
) {
  const box = await context.box();
  const request = {
    argv,
    cwd,
    env: buildEnv(box),
    wallMs: timeoutS * 1_000,
    outputBytesMax: OUTPUT_BYTES_MAX,
    liveAs,
    signal: context.signal,
  };
  return toExecOutput(await (isRepeatable ? box.exec(request) : execOnce(box, request)));
}

const shellExec = (workspace: string): Tool =>
  tool({
    name: 'shell.exec',
    description:
      'Run a command line with /bin/sh in your box: your files, no network but what you are ' +
      'allowed, limits on time, memory and output. Standard input is empty. Everything it starts ' +
      'ends with it. Prefer the file and git tools where they do.',
    risk: 'medium',
    // Its effects stay in the box: at worst the workspace must be recreated.
    reversibility: 'reversible',
    idempotent: false,
    timeoutMs: (SHELL_TIMEOUT_S.max + 30) * 1_000,
    callsPerRunMax: 2_000,
    level: 'L2',
    box: 'write',
    input: z.strictObject({
      command: z
        .string()
        .min(1)
        .max(32_000)
        .regex(/^[^\0]*$/, 'cannot hold a NUL character'),
      cwd: boxPath(workspace).default(workspace),
      timeout_s: z.int().min(1).max(SHELL_TIMEOUT_S.max).default(SHELL_TIMEOUT_S.usual),
    }),
    output: ExecOutput,
    touches: ({ cwd }) => [reads(cwd), writes(cwd)],
    preview: async ({ command, cwd }) => `in ${cwd}:\n${command}\n`,
    async perform({ command, cwd, timeout_s }, context) {
      const argv = ['/bin/sh', '-c', command];
      const shell = { tool: 'shell.exec', argv, cwd, timeoutS: timeout_s, isRepeatable: false };
      return { result: await runCommand(context, shell) };
    },
  });

/** Operator-declared commands by name; an agent cannot add any. */
export type TestCommands = Readonly<Record<string, readonly string[]>>;

const testsRun = (commands: TestCommands, workspace: string): Tool =>
  tool({
    name: 'tests.run',
    description:
      'Run the tests of the workspace, by one of the commands the operator declared: ' +
      `${Object.keys(commands).join(', ') || 'none'}. passed tells whether the command succeeded.`,
    risk: 'medium',
    reversibility: 'reversible',
    idempotent: true,
    timeoutMs: (TESTS_TIMEOUT_S.max + 30) * 1_000,
    callsPerRunMax: 500,
    level: 'L2',
    box: 'write',
    input: z.strictObject({
      name: z.string().max(64).default('default').describe('of the declared command'),
      cwd: boxPath(workspace).default(workspace),
      timeout_s: z.int().min(1).max(TESTS_TIMEOUT_S.max).default(TESTS_TIMEOUT_S.usual),
    }),
    output: ExecOutput.extend({ passed: z.boolean(), command: z.string() }),
    touches: ({ cwd }) => [reads(cwd), writes(cwd)],
    async perform({ name, cwd, timeout_s }, context) {
      const argv = Object.hasOwn(commands, name) ? commands[name] : undefined;
      if (argv === undefined)
        throw fault('not_found', `test command ${name} not found`, {
          hint: `Use one of: ${Object.keys(commands).join(', ') || 'none is declared'}.`,
        });
      const done = await runCommand(context, {
        tool: 'tests.run',
        argv,
        cwd,
        timeoutS: timeout_s,
        isRepeatable: true,
      });
      return { result: { ...done, passed: done.exit_code === 0, command: argv.join(' ') } };
    },
  });

export function shellTools(
  options: { tests: TestCommands },
  workspace: string = WORKSPACE,
): Tool[] {
  return [shellExec(workspace), testsRun(options.tests, workspace)];
}
