// egressd's routes: values in, the service's answers out. Decides nothing.
import type { Handlers } from '../../platform/dispatch.ts';
import type { egressdRoutes } from '../../wire/egressd.ts';
import type { EgressdService } from './service.ts';

export function makeHandlers(service: EgressdService): Handlers<typeof egressdRoutes> {
  return {
    putEgress: async ({ params, body }) => service.put(params.id, body),
    dropEgress: async ({ params, query }) => ({
      dropped: await service.drop(params.id, query.fence),
    }),
    getEgress: async ({ params }) => ({ egress: await service.get(params.id) }),
    listEgress: async () => ({ egress: await service.list() }),
    fetch: async ({ params, body, signal }) => service.fetch(params.id, body, signal),
    getFetch: async ({ params }) => service.recall(params.call_id),
    forgetFetch: async ({ params }) => ({ forgotten: await service.forget(params.call_id) }),
  };
}
