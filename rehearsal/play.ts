// From a request that a wire has checked to the play that answers it, the same on both wires.
import type { Script } from './delivery.ts';
import { type Performance, perform } from './perform.ts';
import type { Refusal } from './refusal.ts';
import type { Scene } from './scene.ts';
import { choose } from './screenplay/choose.ts';
import type { Asked, Reply } from './wire.ts';

export const refusalReply = (refusal: Refusal): Reply => ({ kind: 'refusal', refusal });

export function playReply(
  asked: Asked,
  own: {
    scene: Scene;
    /** Before the number of a call. */
    callPrefix: string;
    isStream: boolean;
    noPlay: Refusal;
    makeScript(performance: Performance): Script;
  },
): Reply {
  const chosen = choose(asked.plays, own.scene);
  if (!chosen) return refusalReply(own.noPlay);
  const id = `${own.callPrefix}${asked.seed.slice(0, 22)}`;
  const performance = perform(chosen, (index) => `${id}${String(index).padStart(2, '0')}`);
  const { delayMs, broken, error } = performance;
  return {
    kind: 'play',
    script: own.makeScript(performance),
    manner: { delayMs, broken },
    error: error?.isInStream === true && own.isStream ? undefined : error,
  };
}
