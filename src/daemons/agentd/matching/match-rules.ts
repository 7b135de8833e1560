// Decides which agent gets a task that names none. First who may: what the task needs against what
// each agent is granted. Then whom the goal's words fit: BM25F over role, purpose, topics, skills,
// the goals of accepted tasks and instructions. Pure, and no model is asked.
import { termsOf, termsOfWords, wordsOf } from '../../../platform/text/tokens.ts';
import { expandWord } from '../../../policy/capabilities.ts';
import type { TaskMatch } from '../../../wire/agentd.ts';

export type AgentProfile = {
  agent: string;
  role: string;
  purpose: string;
  /** Words of the goals that are for it, as its persona lists them. */
  topics: readonly string[];
  skills: readonly string[];
  instructions: string;
  tools: readonly string[];
  /** The goals of completed tasks that nobody tried again, newest first. */
  acceptedGoals: readonly string[];
  load: number;
  accepted: number;
  failed: number;
  medianCostMicrousd: number | null;
};

export type MatchInput = {
  goal: string;
  needs: readonly string[];
  profiles: readonly AgentProfile[];
};
export type Match = Pick<TaskMatch, 'reason' | 'candidates' | 'excluded'> & {
  agent: string | null;
};

/** Below this lead of the first over the second, a person is asked. */
export const CLEAR_LEAD = 1.3;
/** Below this part of what a word scores at most, too: a stray word is no evidence. */
const EVIDENCE_MIN = 0.3;
const WORDS_SHOWN = 6;

/** `b`: how much a longer text counts less, as in BM25. */
const FIELDS = {
  role: { weight: 3, b: 0 },
  purpose: { weight: 2, b: 0.5 },
  topics: { weight: 2, b: 0.3 },
  skills: { weight: 2, b: 0.5 },
  acceptedGoals: { weight: 1, b: 0.75 },
  instructions: { weight: 0.2, b: 0.75 },
} as const;
type Field = keyof typeof FIELDS;
const FIELD_NAMES = Object.keys(FIELDS) as Field[];
const SATURATION = 3;
const FIRST_WORD_WEIGHT = 2;

type Scored = AgentProfile & { score: number; words: { word: string; score: number }[] };
/** Agents with equal profiles: which of them gets the task is decided by the tie-breakers. */
type Kind = { members: Scored[]; score: number };

export function chooseAgent({ goal, needs, profiles }: MatchInput): Match {
  const judged = profiles.map((profile) => ({ profile, lacks: findLacking(needs, profile) }));
  const excluded = judged
    .filter(({ lacks }) => lacks.length > 0)
    .map(({ profile, lacks }) => ({ agent: profile.agent, lacks }));
  const able = judged.filter(({ lacks }) => lacks.length === 0).map(({ profile }) => profile);
  const kinds = groupByKind(scoreProfiles(goal, able));
  const [first, second] = kinds;
  const isClear =
    first !== undefined &&
    (second === undefined ||
      (first.score >= EVIDENCE_MIN * rarityOf(1, able.length) &&
        first.score >= CLEAR_LEAD * second.score));
  return {
    agent: isClear ? first.members[0]!.agent : null,
    reason: isClear ? nameReason(first, able.length) : 'unassigned',
    candidates: kinds.flatMap(({ members }) => members).map(toCandidate),
    excluded,
  };
}

const nameReason = ({ members }: Kind, candidates: number): Match['reason'] =>
  candidates === 1 ? 'only' : members.length > 1 ? 'tie' : 'score';

/** The needed words of which the agent lacks a tool. */
function findLacking(needs: readonly string[], { tools }: AgentProfile): string[] {
  const granted = new Set(tools);
  return needs.filter((word) => expandWord(word).some((tool) => !granted.has(tool)));
}

/** The inverse document frequency of a word that so many of all agents have. */
const rarityOf = (holders: number, all: number): number =>
  Math.log(1 + (all - holders + 0.5) / (holders + 0.5));

function scoreProfiles(goal: string, profiles: readonly AgentProfile[]): Scored[] {
  const read = profiles.map((profile) => readFields(profile));
  const lengths = Object.fromEntries(
    FIELD_NAMES.map((field) => [field, averageLength(read.map((fields) => fields[field]))]),
  ) as Record<Field, number>;
  const frequencies = read.map((fields) => weighTerms(fields, lengths));
  const asked = [...new Set(termsOf(goal))];
  const typed = new Map(wordsOf(goal).map((word) => [termsOfWords([word])[0]!, word]));
  // A goal begins with what is to be done: "Review …", "Deploy …".
  const weightOf = (word: string) => (word === asked[0] ? FIRST_WORD_WEIGHT : 1);
  return profiles.map((profile, i) => {
    const words = asked
      .map((word) => {
        const holders = frequencies.filter((terms) => terms.has(word)).length;
        const rarity = rarityOf(holders, profiles.length);
        const frequency = frequencies[i]!.get(word) ?? 0;
        const score = (weightOf(word) * rarity * frequency) / (SATURATION + frequency);
        return { word: typed.get(word) ?? word, score };
      })
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score);
    return { ...profile, words, score: words.reduce((sum, { score }) => sum + score, 0) };
  });
}

type FieldTerms = Record<Field, { counts: Map<string, number>; length: number }>;

const readFields = (profile: AgentProfile): FieldTerms =>
  Object.fromEntries(
    FIELD_NAMES.map((field) => {
      const text = profile[field];
      return [field, countTerms(typeof text === 'string' ? text : text.join('\n'))];
    }),
  ) as FieldTerms;

function countTerms(text: string): { counts: Map<string, number>; length: number } {
  const counts = new Map<string, number>();
  const terms = text === '' ? [] : termsOf(text);
  for (const term of terms) counts.set(term, (counts.get(term) ?? 0) + 1);
  return { counts, length: terms.length };
}

function averageLength(texts: readonly { length: number }[]): number {
  const filled = texts.filter(({ length }) => length > 0);
  return filled.reduce((sum, { length }) => sum + length, 0) / Math.max(1, filled.length);
}

/** The frequency of each term, over all fields. */
function weighTerms(fields: FieldTerms, lengths: Record<Field, number>): Map<string, number> {
  const weighed = new Map<string, number>();
  for (const field of FIELD_NAMES) {
    const { counts, length } = fields[field];
    const { weight, b } = FIELDS[field];
    const norm = 1 - b + b * (length / Math.max(1, lengths[field]));
    for (const [term, count] of counts)
      weighed.set(term, (weighed.get(term) ?? 0) + (weight * count) / norm);
  }
  return weighed;
}

function groupByKind(scored: readonly Scored[]): Kind[] {
  const groups = new Map<string, Scored[]>();
  for (const one of scored) {
    const { role, purpose, topics, skills, instructions, tools } = one;
    const key = JSON.stringify([role, purpose, topics, skills, instructions, tools]);
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()]
    .map((members) => ({
      members: members.sort(compareMembers),
      score: Math.max(...members.map(({ score }) => score)),
    }))
    .sort((a, b) => b.score - a.score || compareMembers(a.members[0]!, b.members[0]!));
}

const successOf = ({ accepted, failed }: AgentProfile): number =>
  accepted + failed === 0 ? 0.5 : accepted / (accepted + failed);

/** The tie-breakers: load, median cost and success of accepted results. An unknown cost is last. */
function compareMembers(a: AgentProfile, b: AgentProfile): number {
  const cost = ({ medianCostMicrousd: known }: AgentProfile) => known ?? Number.MAX_SAFE_INTEGER;
  return (
    a.load - b.load ||
    cost(a) - cost(b) ||
    successOf(b) - successOf(a) ||
    (a.agent < b.agent ? -1 : 1)
  );
}

const round = (n: number): number => Math.round(n * 1_000) / 1_000;

const toCandidate = (one: Scored): TaskMatch['candidates'][number] => ({
  agent: one.agent as never,
  score: round(one.score),
  words: one.words.slice(0, WORDS_SHOWN).map(({ word, score }) => ({ word, score: round(score) })),
  load: round(one.load),
  accepted: one.accepted,
  failed: one.failed,
  median_cost_microusd: one.medianCostMicrousd,
});
