// Looks orders up by their number.

/** @param {readonly { id: string }[]} orders */
export function makeFinder(orders) {
  const byId = new Map(orders.map((order) => [order.id, order]));
  return (id) => byId.get(id);
}
