// Shows and carries out what an agent proposes about its persona or a skill. It is written to the
// operator's directories once a person has accepted exactly this change; toold sees to that.
import { randomUUID } from 'node:crypto';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import type { Handlers } from '../../platform/dispatch.ts';
import { sha256Hex } from '../../platform/json.ts';
import { makeMutex } from '../../platform/mutex.ts';
import { writeAtomically } from '../../platform/state-dir.ts';
import type { agentdRoutes, Proposal, ProposedChange } from '../../wire/agentd.ts';
import { fault } from '../../wire/errors.ts';
import type { FileProblem } from '../../wire/primitives.ts';
import { readTextFile } from './adapters/read-text.ts';
import { toRunCall } from './calls.ts';
import { findHeldRun } from './live-run.ts';
import type { DeclaredAgent } from './manifests/read-manifest.ts';
import type { Orders } from './open-orders.ts';
import { composePersona } from './personas/compose.ts';
import { PERSONA_BYTES_MAX, readPersona } from './personas/persona-file.ts';
import { readSkill, SKILL_FILE_BYTES_MAX } from './skills/skill-file.ts';
import type { AgentdStore } from './store/store.ts';

export type ProposalHandlers = Pick<
  Handlers<typeof agentdRoutes>,
  'toolPreviewProposal' | 'toolAcceptProposal'
>;

export function makeProposalHandlers({
  store,
  stateDir,
  orders,
}: {
  store: Pick<AgentdStore, 'runRow' | 'agent' | 'recordProposal'>;
  stateDir: string;
  orders: Orders;
}): ProposalHandlers {
  const withLock = makeMutex();
  const personaFile = (agent: string): string =>
    join(stateDir, 'personas', 'agents', `${agent}.md`);

  const readSpec = async (body: { run_id: string; fence: number }): Promise<DeclaredAgent> =>
    (await store.agent((await findHeldRun(store, body)).agent)).spec;

  const listChanges = async (
    { name: agent }: DeclaredAgent,
    proposal: Proposal,
  ): Promise<ProposedChange[]> => {
    if (proposal.kind === 'persona') {
      const before = await readOwnText(personaFile(agent), PERSONA_BYTES_MAX);
      return [{ path: `personas/agents/${agent}.md`, before, after: ensureLine(proposal.text) }];
    }
    const present = orders.skills.current().skills.get(proposal.name);
    const listed = present === undefined ? [] : await orders.skills.listFiles(present);
    const paths = new Set(['SKILL.md', ...listed.map(({ path }) => path)]);
    return Promise.all(
      proposal.files.map(async ({ path, text }) => ({
        path: `skills/${proposal.name}/${path}`,
        before:
          present === undefined || !paths.has(path)
            ? null
            : await readOwnText(join(present.dir, path), SKILL_FILE_BYTES_MAX),
        after: ensureLine(text),
      })),
    );
  };

  /** Its present version, of whatever layer: the new one starts as a copy of it. */
  const findSkillDir = (name: string): string | undefined =>
    orders.skills.current().skills.get(name)?.dir;

  const assertValid = (spec: DeclaredAgent, proposal: Proposal): void => {
    if (proposal.kind === 'persona') assertPersona(spec, proposal.text, orders);
    else assertSkill(proposal, findSkillDir(proposal.name) === undefined);
  };

  return {
    async toolPreviewProposal({ body }) {
      const spec = await readSpec(body);
      assertValid(spec, body.proposal);
      const changes = await listChanges(spec, body.proposal);
      return { changes, basis: hashBefore(changes) };
    },
    toolAcceptProposal: ({ body }) =>
      withLock(async () => {
        const { proposal } = body;
        const spec = await readSpec(body);
        assertValid(spec, proposal);
        const changes = await listChanges(spec, proposal);
        // A call that is repeated after a crash finds its own work.
        const isDone = changes.every(({ before, after }) => before === after);
        if (!isDone && hashBefore(changes) !== body.basis)
          throw fault('conflict', `${changes[0]!.path} has changed since a person accepted this`, {
            hint: 'Nothing was done. Look at the current text, and propose again.',
            details: { reason: 'changed' },
          });
        if (proposal.kind === 'persona') {
          mkdirSync(dirname(personaFile(spec.name)), { recursive: true, mode: 0o700 });
          writeAtomically(personaFile(spec.name), ensureLine(proposal.text));
          await orders.personas.rescan();
        } else {
          replaceSkill(join(stateDir, 'skills'), proposal, findSkillDir(proposal.name));
          await orders.skills.rescan();
        }
        const name = proposal.kind === 'persona' ? spec.name : proposal.name;
        const sha256 = sha256Hex(JSON.stringify(changes.map(({ path, after }) => [path, after])));
        await store.recordProposal(toRunCall(body), {
          kind: proposal.kind,
          name,
          sha256,
          approvalId: body.approval_id,
        });
        return { paths: changes.map(({ path }) => path) };
      }),
  };
}

const ensureLine = (text: string): string => (text.endsWith('\n') ? text : `${text}\n`);

const hashBefore = (changes: readonly ProposedChange[]): string =>
  sha256Hex(JSON.stringify(changes.map(({ path, before }) => [path, before])));

/** Null: there is none. What cannot be read as text is never replaced. */
async function readOwnText(file: string, bytesMax: number): Promise<string | null> {
  const reading = await readTextFile(file, { bytesMax, followLinks: false });
  if (reading === undefined) return null;
  if (reading.ok) return reading.text;
  throw fault('conflict', `${file}: ${reading.problem.message}`, { hint: reading.problem.hint });
}

function refuse(problem: FileProblem): never {
  const at = problem.line === null ? '' : `line ${problem.line}: `;
  throw fault('bad_request', `${at}${problem.message}`, { hint: problem.hint });
}

/** The proposed text with the agent's other layers must compose. */
function assertPersona(spec: DeclaredAgent, text: string, { personas }: Orders): void {
  if (text.startsWith('---'))
    throw fault('bad_request', 'a proposed persona has no front matter', {
      hint: 'Write the text alone.',
    });
  const file = `personas/agents/${spec.name}.md`;
  const read = readPersona(ensureLine(text), 'operator', file);
  if (!read.ok) refuse(read.problems[0]!);
  const library = personas.current();
  const ref = `agents/${spec.name}`;
  const others = (library.files.get(ref) ?? []).filter(({ source }) => source !== 'operator');
  const { metadata } = spec.manifest;
  const composed = composePersona(
    { ...library, files: new Map([...library.files, [ref, [...others, read.persona]]]) },
    {
      agent: spec.name,
      description: metadata.description ?? '',
      labels: metadata.labels ?? {},
      refs: spec.manifest.spec.personas,
      inline: spec.manifest.spec.persona,
      manifestFile: file,
      manifestHash: spec.hash,
    },
  );
  if (!composed.ok) refuse(composed.problems[0]!);
}

function assertSkill({ name, files }: Proposal & { kind: 'skill' }, isNew: boolean): void {
  const paths = files.map(({ path }) => path);
  const twice = paths.find((path, i) => paths.indexOf(path) !== i);
  if (twice !== undefined) throw fault('bad_request', `${twice} is given twice`);
  const outer = paths.find((path) => paths.some((other) => other.startsWith(`${path}/`)));
  if (outer !== undefined) throw fault('bad_request', `${outer} is both a file and a folder`);
  const main = files.find(({ path }) => path === 'SKILL.md');
  if (main === undefined) {
    if (!isNew) return;
    throw fault('bad_request', `skill ${name} is new and has no SKILL.md`, {
      hint: 'Give a file SKILL.md with front matter: name and description.',
    });
  }
  const place = { name, source: 'operator', dir: '', file: 'SKILL.md' } as const;
  const read = readSkill(main.text, place);
  if (!read.ok) refuse(read.problems[0]!);
  if (read.warnings[0] !== undefined) refuse(read.warnings[0]);
}

/** The folder is completed beside its place, and then takes it. Links are not taken along. */
function replaceSkill(
  root: string,
  { name, files }: Proposal & { kind: 'skill' },
  present: string | undefined,
): void {
  const target = join(root, name);
  removeLeftovers(root, name);
  const half = join(root, `.${name}.${randomUUID().slice(0, 8)}`);
  mkdirSync(half, { mode: 0o700 });
  if (present !== undefined)
    cpSync(existsSync(target) ? realpathSync(target) : realpathSync(present), half, {
      recursive: true,
      filter: (from) => !lstatSync(from).isSymbolicLink(),
    });
  for (const { path, text } of files) {
    mkdirSync(dirname(join(half, path)), { recursive: true, mode: 0o700 });
    writeFileSync(join(half, path), ensureLine(text), { mode: 0o600, flush: true });
  }
  const old = `${half}.old`;
  if (existsSync(target)) renameSync(target, old);
  renameSync(half, target);
  rmSync(old, { recursive: true, force: true });
}

/** A process that died in between may have left the folder moved away. */
function removeLeftovers(root: string, name: string): void {
  const target = join(root, name);
  for (const entry of readdirSync(root)) {
    if (!entry.startsWith(`.${name}.`)) continue;
    if (entry.endsWith('.old') && !existsSync(target)) renameSync(join(root, entry), target);
    else rmSync(join(root, entry), { recursive: true, force: true });
  }
}
