// The example's Worker as somebody writes it who forgets the alarm of its class.
import worker, { Accounts } from '../../crates/once-object/examples/transfers/entry.mjs';

delete Object.getPrototypeOf(Accounts.prototype).alarm;

export { Accounts };
export default worker;
