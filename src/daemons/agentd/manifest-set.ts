// Which manifests are in force when several files are read: one broken or doubled file harms no
// other, and what was in force stays until something valid replaces it. Pure; reading is
// adapters/manifest-dir.ts's.
import type { FileProblem } from '../../wire/primitives.ts';
import type { DeclaredAgent, ManifestResult } from './manifests.ts';

export type FiledAgent = { agent: DeclaredAgent; file: string };
export type ManifestSet = {
  /** Sorted by name. */
  agents: FiledAgent[];
  problems: FileProblem[];
};
export type Reading = { file: string; result: ManifestResult };

/** `readings` in the order of their file names; `inForce` is the set before. */
export function mergeManifests(
  readings: readonly Reading[],
  inForce: readonly FiledAgent[],
): ManifestSet {
  const held = new Map(inForce.map((one) => [one.file, one]));
  const wanted = readings.flatMap(({ file, result }) => {
    if (result.ok) return [{ agent: result.agent, file }];
    return held.get(file) ?? [];
  });
  const named = settle(wanted, held, (agent) => agent.name);
  // Two agents with one Linux user could read and signal each other.
  const used = settle(named.kept, held, (agent) => agent.linuxUser);
  const agents = [...used.kept];
  const lost = [...named.lost, ...used.lost];
  for (const { loser } of lost) {
    const before = held.get(loser.file);
    if (before !== undefined && isFree(before, agents)) agents.push(before);
  }
  // Whoever it lost to may have lost as well, and left it room.
  for (const { loser } of lost)
    if (!agents.some(({ file }) => file === loser.file) && isFree(loser, agents))
      agents.push(loser);
  const isOut = ({ loser }: NameConflict): boolean => !agents.includes(loser);
  return {
    agents: agents.sort((a, b) => (a.agent.name < b.agent.name ? -1 : 1)),
    problems: [
      ...readings.flatMap(({ file, result }) =>
        result.ok ? [] : withStanding(result.problems, held.get(file)),
      ),
      ...named.lost.filter(isOut).map(({ loser, winner }) => ({
        file: loser.file,
        line: null,
        message: `the agent ${loser.agent.name} is declared by ${winner.file} already`,
        hint: 'Give one of the two another name, or remove one.',
      })),
      ...used.lost.filter(isOut).map(({ loser, winner: { agent } }) => ({
        file: loser.file,
        line: null,
        message: `its Linux user ${agent.linuxUser} is the user of ${agent.name} already`,
        hint: 'Give each agent a user of its own: set spec.linuxUser.',
      })),
    ],
  };
}

type NameConflict = { loser: FiledAgent; winner: FiledAgent };

/** Of those with the same key, the one whose file has it in force wins, else the first. */
function settle(
  agents: readonly FiledAgent[],
  held: ReadonlyMap<string, FiledAgent>,
  keyOf: (agent: DeclaredAgent) => string,
): { kept: FiledAgent[]; lost: NameConflict[] } {
  const holds = ({ agent, file }: FiledAgent): boolean => {
    const before = held.get(file);
    return before !== undefined && keyOf(before.agent) === keyOf(agent);
  };
  const winners = new Map<string, FiledAgent>();
  for (const one of agents) {
    const key = keyOf(one.agent);
    const other = winners.get(key);
    if (other === undefined || (holds(one) && !holds(other))) winners.set(key, one);
  }
  const winnerOf = ({ agent }: FiledAgent) => winners.get(keyOf(agent))!;
  return {
    kept: agents.filter((one) => winnerOf(one) === one),
    lost: agents
      .filter((one) => winnerOf(one) !== one)
      .map((loser) => ({ loser, winner: winnerOf(loser) })),
  };
}

function isFree({ agent }: FiledAgent, agents: readonly FiledAgent[]): boolean {
  return !agents.some(
    (other) => other.agent.name === agent.name || other.agent.linuxUser === agent.linuxUser,
  );
}

/** Says with the first problem of a file that its agent goes on as it was. */
function withStanding(
  problems: readonly FileProblem[],
  before: FiledAgent | undefined,
): FileProblem[] {
  const [first, ...rest] = problems;
  if (first === undefined || before === undefined) return [...problems];
  const hint = `${first.hint} Until then the agent ${before.agent.name} stays as it was.`;
  return [{ ...first, hint }, ...rest];
}
