//! Models of mailboxes.
//!
//! | file | what is modelled | what is abstracted |
//! | --- | --- | --- |
//! | `word` | [`Word`](super::word::Word): posts, the owner's turns, the end | letters are numbers whose content is watched memory; a thread that activates the mailbox is its owner and runs it at once |
//! | `orders` | [`Word`](super::word::Word): orders, visits, handles that are made anew | as above; marks, carriers and the count of live strands are left out |
//! | `carrier` | [`Carrier`](super::carrier::Carrier) | the carrier is watched memory, and to cancel it is to count |

mod carrier;
mod orders;
mod word;
