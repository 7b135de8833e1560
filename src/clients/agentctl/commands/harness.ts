// agentctl harness list and test: the coding agents of others that have a profile, and whether one
// works here.
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { fault } from '../../../wire/errors.ts';
import { findInstalled } from '../box/find-program.ts';
import { grantPrograms } from '../box/grant-programs.ts';
import { prepareProgram } from '../box/prepare-program.ts';
import { PROFILES } from '../box/profiles/index.ts';
import type { Profile } from '../box/profiles/profile.ts';
import { attachProgram } from '../box/program-client.ts';
import type { Session } from '../command.ts';
import { openGrants } from '../grants/grants.ts';
import { replaceControls } from '../show/plain.ts';
import { renderTable } from '../show/table.ts';

type Harness = Profile & Required<Pick<Profile, 'package' | 'round'>>;

const HEADERS = [
  { title: 'NAME' },
  { title: 'COMMAND' },
  { title: 'INSTALLED' },
  { title: 'TESTED' },
  { title: 'ABOUT', minWidth: 10 },
] as const;
const isHarness = (profile: Profile): profile is Harness =>
  profile.package !== undefined && profile.round !== undefined;
const HARNESSES = PROFILES.filter(isHarness);

export async function list({ env, out }: Session): Promise<void> {
  const harnesses = HARNESSES.map(({ name, commands, about, package: { name: from, version } }) => {
    const path = findInstalled(commands[0]!, env.PATH);
    const installed = path === undefined ? null : { path, version: readVersion(path) };
    return { name, command: commands[0]!, about, package: from, installed, tested: version };
  });
  out.print({ harnesses }, () =>
    renderTable(
      HEADERS,
      harnesses.map(({ name, command, installed, tested, about }) => [
        name,
        command,
        installed === null ? 'no' : (installed.version ?? 'yes'),
        tested,
        about,
      ]),
      out,
    ),
  );
}

/** The version of the package around a program, if it is in one. */
function readVersion(path: string): string | null {
  for (let dir = dirname(path); dir !== '/'; dir = dirname(dir))
    try {
      const text = readFileSync(join(dir, 'package.json'), 'utf8');
      return (JSON.parse(text) as { version?: string }).version ?? null;
    } catch {
      // Further up.
    }
  return null;
}

const BEFORE = 'a line before the test';
const AFTER = 'a line behind the test';
const OUTPUT_CHARS_MAX = 2_000;
const TIME_S_MAX = 120;
const REHEARSAL = 'rehearsal-large';

/** Plays one round: the program has to edit a file and run a command, as the model tells it to. */
export async function test(session: Session): Promise<number> {
  const { args, env, out } = session;
  const harness = findHarness(args.positionals[0]!);
  const command = harness.commands[0]!;
  if (findInstalled(command, env.PATH) === undefined)
    throw fault('not_found', `${command} is not on your PATH`, {
      hint: `Install it: npm install --global ${harness.package.name}`,
    });
  const model = args.text('model') ?? (await chooseRehearsal(session));
  const dir = realpathSync(mkdtempSync(join(tmpdir(), 'agentd-harness-')));
  const grants = openGrants(session);
  try {
    writeFileSync(join(dir, 'notes.txt'), `${BEFORE}\n`);
    await grants.grant(dir);
    const prompt = `rehearse an edit of notes.txt: ${BEFORE} => ${AFTER}, then run cat notes.txt`;
    const { code, output, taskId } = await play(session, {
      words: [command, ...harness.round(prompt)],
      profile: harness.name,
      dir,
      model,
    });
    const isEdited = readFileSync(join(dir, 'notes.txt'), 'utf8') === `${AFTER}\n`;
    const works = code === 0 && isEdited && output.includes(AFTER);
    const result = {
      name: harness.name,
      works,
      edited: isEdited,
      exit_code: code,
      task_id: taskId,
    };
    out.print({ test: result }, () => [
      works
        ? `${harness.name} works: it edited a file and ran a command in a box.`
        : `${harness.name} does not work here (exit status ${code ?? 'none'}):`,
      ...(works ? [] : [replaceControls(output.slice(-OUTPUT_CHARS_MAX))]),
    ]);
    return works ? 0 : 1;
  } finally {
    await grants.revoke(dir);
    rmSync(dir, { recursive: true, force: true });
  }
}

function findHarness(name: string): Harness {
  const found = HARNESSES.find((one) => one.name === name || one.commands.includes(name));
  if (found !== undefined) return found;
  throw fault('not_found', `there is no profile ${name}`, {
    hint: `Use one of ${HARNESSES.map((one) => one.name).join(', ')}.`,
  });
}

/** A real model costs money, and may do something else than it is told. */
async function chooseRehearsal({ runtime }: Session): Promise<string> {
  const { models } = await runtime().call('modeld', 'listModels', {});
  if (models.some(({ name }) => name === REHEARSAL)) return REHEARSAL;
  throw fault('bad_usage', 'the rehearsal does not run, because there are real models', {
    hint: 'Name the one that shall answer, at its price: --model M',
  });
}

async function play(
  session: Session,
  round: { words: readonly string[]; profile: string; dir: string; model: string },
): Promise<{ code: number | null; output: string; taskId: string }> {
  const runtime = session.runtime();
  const command = prepareProgram(round.words, session.env, round.profile);
  await grantPrograms(session, command.programs ?? []);
  const { task, run_id, token } = await runtime.call('agentd', 'createProgram', {
    body: {
      workspace: round.dir,
      workspace_mode: 'live',
      model: round.model,
      limits: { max_time_s: TIME_S_MAX },
      command,
    },
  });
  const attaching = { params: { id: run_id }, body: { token } };
  let output = '';
  const collect = () =>
    new Writable({
      write(chunk, _, done) {
        output += String(chunk);
        done();
      },
    });
  const stdin = new PassThrough();
  stdin.end();
  const program = await attachProgram(runtime.describe('sandboxd', 'attachProgram', attaching), {
    stdin,
    stdout: collect(),
    stderr: collect(),
  });
  program.begin();
  const end = await program.ended;
  return { code: end.exit_code, output, taskId: task.id };
}
