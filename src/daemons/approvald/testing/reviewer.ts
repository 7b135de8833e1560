// Test helper: a client that reads an approval before it decides, as agentctl does.
import type { Client } from '../../../platform/link.ts';
import type { approvaldRoutes } from '../../../wire/approvald.ts';

export type ApprovaldTestClient = Client<typeof approvaldRoutes>;
type DecisionRoute = 'approve' | 'reject' | 'requestInfo' | 'escalate';
type WithOptionalNonce<F> = F extends (request: infer A, ...more: infer M) => infer R
  ? A extends { body: infer B }
    ? (request: Omit<A, 'body'> & { body: Omit<B, 'nonce'> & { nonce?: string } }, ...more: M) => R
    : never
  : never;
/** A client that adds the approval's current nonce to decisions without one. */
export type Reviewer = Omit<ApprovaldTestClient, DecisionRoute> & {
  [K in DecisionRoute]: WithOptionalNonce<ApprovaldTestClient[K]>;
};

export function makeReviewer(client: ApprovaldTestClient): Reviewer {
  const withNonce = <K extends DecisionRoute>(route: K) =>
    (async (request: { params: { id: never }; body: object }, ...more: unknown[]) => {
      const { params } = request;
      const nonce =
        'nonce' in request.body
          ? request.body.nonce
          : (await client.getApproval({ params })).approval.nonce;
      const decide = client[route] as (...all: unknown[]) => Promise<unknown>;
      return decide({ ...request, body: { ...request.body, nonce } }, ...more);
    }) as never;
  return {
    ...client,
    approve: withNonce('approve'),
    reject: withNonce('reject'),
    requestInfo: withNonce('requestInfo'),
    escalate: withNonce('escalate'),
  };
}
