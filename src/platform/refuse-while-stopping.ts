// Guards the handlers of a daemon that is stopping.
import { fault } from '../wire/errors.ts';
import type { RouteTable } from '../wire/route.ts';
import type { HandlerContext, Handlers } from './dispatch.ts';

/** While stopping, only health and calls from other daemons are handled. */
export function refuseWhileStopping<T extends RouteTable>(
  stopping: () => boolean,
  handlers: Handlers<T>,
): Handlers<T> {
  const guarded: Record<string, unknown> = {};
  for (const [name, handler] of Object.entries(handlers)) {
    const inner = handler as (context: HandlerContext) => Promise<unknown>;
    guarded[name] = (context: HandlerContext) => {
      if (stopping() && name !== 'health' && context.caller.kind !== 'daemon') {
        throw fault('stopping', 'the runtime is stopping', { retryAfterMs: 1_000 });
      }
      return inner(context);
    };
  }
  return guarded as Handlers<T>;
}
