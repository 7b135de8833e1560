// Decides which manifests are in force: a broken or conflicting file affects no other, and an agent
// stays as it was until a valid manifest replaces it. Pure; adapters/manifest-dir.ts reads the
// files.
import type { FileProblem } from '../../../wire/primitives.ts';
import type { DeclaredAgent, ManifestResult } from './read-manifest.ts';

export type FiledAgent = { agent: DeclaredAgent; file: string };
export type ManifestSet = {
  /** Sorted by name. */
  agents: FiledAgent[];
  problems: FileProblem[];
};
export type Reading = { file: string; result: ManifestResult };

/** `readings` are sorted by file name; `inForce` is the previous set. */
export function mergeManifests(
  readings: readonly Reading[],
  inForce: readonly FiledAgent[],
): ManifestSet {
  const previous = new Map(inForce.map((agent) => [agent.file, agent]));
  const candidates = readings.flatMap(({ file, result }) => {
    if (result.ok) return [{ agent: result.agent, file }];
    return previous.get(file) ?? [];
  });
  const byName = resolveConflicts(candidates, previous, (agent) => agent.name);
  // Two agents with one Linux user could read and signal each other.
  const byUser = resolveConflicts(byName.kept, previous, (agent) => agent.linuxUser);
  const agents = [...byUser.kept];
  const conflicts = [...byName.conflicts, ...byUser.conflicts];
  for (const { loser } of conflicts) {
    const before = previous.get(loser.file);
    if (before !== undefined && isFree(before, agents)) agents.push(before);
  }
  // The winner of one conflict may have lost another, which frees its name or user.
  for (const { loser } of conflicts)
    if (!agents.some(({ file }) => file === loser.file) && isFree(loser, agents))
      agents.push(loser);
  const isExcluded = ({ loser }: NameConflict): boolean => !agents.includes(loser);
  return {
    agents: agents.sort((a, b) => (a.agent.name < b.agent.name ? -1 : 1)),
    problems: [
      ...readings.flatMap(({ file, result }) =>
        result.ok ? result.warnings : addFallbackHint(result.problems, previous.get(file)),
      ),
      ...byName.conflicts.filter(isExcluded).map(({ loser, winner }) => ({
        file: loser.file,
        line: null,
        message: `agent ${loser.agent.name} is already declared by ${winner.file}`,
        hint: 'Rename or remove one of them.',
      })),
      ...byUser.conflicts.filter(isExcluded).map(({ loser, winner: { agent } }) => ({
        file: loser.file,
        line: null,
        message: `Linux user ${agent.linuxUser} already belongs to agent ${agent.name}`,
        hint: 'Set spec.linuxUser to a different user.',
      })),
    ],
  };
}

type NameConflict = { loser: FiledAgent; winner: FiledAgent };

/** Per key, the file that has the key in force wins, else the first file. */
function resolveConflicts(
  agents: readonly FiledAgent[],
  previous: ReadonlyMap<string, FiledAgent>,
  getKey: (agent: DeclaredAgent) => string,
): { kept: FiledAgent[]; conflicts: NameConflict[] } {
  const isInForce = ({ agent, file }: FiledAgent): boolean => {
    const before = previous.get(file);
    return before !== undefined && getKey(before.agent) === getKey(agent);
  };
  const winners = new Map<string, FiledAgent>();
  for (const candidate of agents) {
    const key = getKey(candidate.agent);
    const other = winners.get(key);
    if (other === undefined || (isInForce(candidate) && !isInForce(other)))
      winners.set(key, candidate);
  }
  const findWinner = ({ agent }: FiledAgent) => winners.get(getKey(agent))!;
  return {
    kept: agents.filter((agent) => findWinner(agent) === agent),
    conflicts: agents
      .filter((agent) => findWinner(agent) !== agent)
      .map((loser) => ({ loser, winner: findWinner(loser) })),
  };
}

function isFree({ agent }: FiledAgent, agents: readonly FiledAgent[]): boolean {
  return !agents.some(
    (other) => other.agent.name === agent.name || other.agent.linuxUser === agent.linuxUser,
  );
}

/** Adds to the first problem's hint that the previous version stays in force. */
function addFallbackHint(
  problems: readonly FileProblem[],
  before: FiledAgent | undefined,
): FileProblem[] {
  const [first, ...rest] = problems;
  if (first === undefined || before === undefined) return [...problems];
  const hint = `${first.hint} Until then agent ${before.agent.name} stays as it was.`;
  return [{ ...first, hint }, ...rest];
}
