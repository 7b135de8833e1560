// For tests: a person who looks at an approval before they answer it, as agentctl does.
import type { Client } from '../../../platform/link.ts';
import type { approvaldRoutes } from '../../../wire/approvald.ts';

export type ApprovaldTestClient = Client<typeof approvaldRoutes>;
type Answers = 'approve' | 'reject' | 'requestInfo' | 'escalate';
type Loose<F> = F extends (asked: infer A, ...more: infer M) => infer R
  ? A extends { body: infer B }
    ? (asked: Omit<A, 'body'> & { body: Omit<B, 'nonce'> & { nonce?: string } }, ...more: M) => R
    : never
  : never;
/** Somebody who looks before they answer: an answer without a nonce gets the one of now. */
export type Seeing = Omit<ApprovaldTestClient, Answers> & {
  [K in Answers]: Loose<ApprovaldTestClient[K]>;
};

export function seeing(client: ApprovaldTestClient): Seeing {
  const looked = <K extends Answers>(route: K) =>
    (async (asked: { params: { id: never }; body: object }, ...more: unknown[]) => {
      const { params } = asked;
      const nonce =
        'nonce' in asked.body
          ? asked.body.nonce
          : (await client.getApproval({ params })).approval.nonce;
      const answer = client[route] as (...all: unknown[]) => Promise<unknown>;
      return answer({ ...asked, body: { ...asked.body, nonce } }, ...more);
    }) as never;
  return {
    ...client,
    approve: looked('approve'),
    reject: looked('reject'),
    requestInfo: looked('requestInfo'),
    escalate: looked('escalate'),
  };
}
