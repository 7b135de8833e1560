// Chooses the play and the answer for a scene. Pure and without memory: the same scene gives the
// same answer.
import type { Scene } from '../scene.ts';
import { type Cast, fillAmount } from './template.ts';
import type { Answer, Match, Pattern, Play } from './types.ts';

export type Chosen = { readonly play: Play; readonly answer: Answer; readonly cast: Cast };

/** Tool results longer than this are cut before a pattern sees them. */
const patternCharsMax = 20_000;

function fits(pattern: Pattern, text: string): boolean {
  return pattern.kind === 'equal' ? pattern.value === text : pattern.regex.test(text);
}

function capture(pattern: Pattern | undefined, text: string): RegExpExecArray | null {
  return pattern?.kind === 'regex' ? pattern.regex.exec(text) : null;
}

const cut = (text: string) =>
  text.length > patternCharsMax ? text.slice(0, patternCharsMax) : text;

function lastResultOf(scene: Scene): string {
  return cut(scene.results.at(-1)?.text ?? '');
}

function holds(match: Match, scene: Scene): boolean {
  if (match.wire !== undefined && match.wire !== scene.wire) return false;
  if (match.step && !match.step.includes(scene.step)) return false;
  if (match.agent && !match.agent.some((pattern) => fits(pattern, scene.agent))) return false;
  if (match.model && !match.model.some((pattern) => fits(pattern, scene.model))) return false;
  if (match.goal && !fits(match.goal, scene.goal)) return false;
  if (match.lastUser && !fits(match.lastUser, cut(scene.lastUser))) return false;
  if (match.hasTool && !match.hasTool.every((tool) => scene.tools.has(tool))) return false;
  if (!match.lastResult) return true;
  return scene.results.length > 0 && fits(match.lastResult, lastResultOf(scene));
}

function makeCast(scene: Scene, match: Match, when: Match | undefined): Cast {
  return {
    scene,
    goalMatch: capture(when?.goal ?? match.goal, scene.goal),
    lastUserMatch: capture(when?.lastUser ?? match.lastUser, cut(scene.lastUser)),
    lastResultMatch: capture(when?.lastResult ?? match.lastResult, lastResultOf(scene)),
  };
}

/**
 * Answers with `when` come first, whatever the step. The others take their turns: each serves its
 * `times` steps, and the last one serves all that follow, so that a play never runs dry.
 */
function chooseAnswer(play: Play, scene: Scene): Chosen {
  for (const answer of play.answers) {
    if (answer.when && holds(answer.when, scene)) {
      return { play, answer, cast: makeCast(scene, play.match, answer.when) };
    }
  }
  const cast = makeCast(scene, play.match, undefined);
  const turns = play.answers.filter((answer) => !answer.when);
  let stepsBefore = 0;
  for (const answer of turns) {
    if (answer.times === 'forever') return { play, answer, cast };
    stepsBefore += fillAmount(answer.times, cast, { min: 0, max: 1_000_000 });
    if (scene.step <= stepsBefore) return { play, answer, cast };
  }
  return { play, answer: turns.at(-1)!, cast };
}

export function choose(plays: readonly Play[], scene: Scene): Chosen | undefined {
  const play = plays.find((candidate) => holds(candidate.match, scene));
  return play && chooseAnswer(play, scene);
}
